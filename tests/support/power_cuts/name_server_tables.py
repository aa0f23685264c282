"""Name server tables: the key-value configuration (100, 101, 102) and the settings (318, 319)."""

from support.broker_client import BrokerClient
from support.power_cuts.promise import SUCCESS, Promise, Register

PUT, GET, DELETE, UPDATE_CONFIG, GET_CONFIG = 100, 101, 102, 318, 319
NAMESPACE = "ORDER_TOPIC_CONFIG"
SETTING = "waitSecondsForService"


class NameServerTables(Promise):
    """Its clients connect to the name server, whose files are beside the store."""

    workers = 1
    is_of_name_server = True

    def __init__(self, number: int, seed: str) -> None:
        super().__init__(number, seed)
        self.register = Register()

    async def prepare(self, client: BrokerClient) -> None:
        self.register.answered(SETTING, await self.setting(client))

    async def step(self, client: BrokerClient, worker: int) -> bool:
        key, value = f"{self.name('key')}-{self.random.randrange(4)}", f"b:{self.next()}"
        how = self.random.randrange(3)
        if how == 0:
            self.register.asked(key, None)
            reply = await client.call(DELETE, namespace=NAMESPACE, key=key)
            value = None
        elif how == 1:
            self.register.asked(key, value)
            reply = await client.call(PUT, namespace=NAMESPACE, key=key, value=value)
        else:
            key, value = SETTING, str(5000 + self.next())
            self.register.asked(key, value)
            reply = await client.call(UPDATE_CONFIG, f"{key}={value}\n".encode())
        if reply.code == SUCCESS:
            self.register.answered(key, value)
            self.kept += 1
        return reply.code == SUCCESS

    async def check(self, client: BrokerClient) -> list[str]:
        losses = []
        for key, possible in self.register.possible.items():
            if key == SETTING:
                found = await self.setting(client)
            else:
                reply = await client.call(GET, namespace=NAMESPACE, key=key)
                found = reply.fields.get("value") if reply.code == SUCCESS else None
            if found not in possible:
                losses.append(f"{key} is {found} and not {possible}")
        return losses

    async def setting(self, client: BrokerClient) -> str | None:
        text = (await client.call(GET_CONFIG)).body.decode()
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line).get(SETTING)
