from cext.client.message import Message as Message
from cext.client.message import MessageExt as MessageExt
from cext.client.result import SendResult as SendResult
from rmq.client.administration import Admin as Admin
from rmq.client.listening import ConsumeConcurrentlyStatus as ConsumeConcurrentlyStatus
from rmq.client.listening import ConsumeOrderlyStatus as ConsumeOrderlyStatus
from rmq.client.producer import Producer as Producer
from rmq.client.pull_consumer import PullConsumer as PullConsumer
from rmq.client.push_consumer import PushConsumer as PushConsumer
from rmq.client.transaction import LocalTransactionState as LocalTransactionState
from rmq.client.transaction import TransactionListener as TransactionListener
from rmq.client.transaction import TransactionProducer as TransactionProducer
from rmq.client.transaction import TransactionResult as TransactionResult
from rmq.errors import BusyError as BusyError
from rmq.errors import ClosedError as ClosedError
from rmq.errors import ConfigError as ConfigError
from rmq.errors import MessageError as MessageError
from rmq.errors import ProtocolError as ProtocolError
from rmq.errors import RemoteError as RemoteError
from rmq.errors import RequestTimeoutError as RequestTimeoutError
from rmq.errors import RmqError as RmqError
from rmq.errors import RouteError as RouteError
from rmq.errors import UnreachableError as UnreachableError
from rmq.format.fastjson import MessageQueue as MessageQueue

__version__: str
