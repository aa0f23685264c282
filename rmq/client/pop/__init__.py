"""Pop consumer: takes single messages for a while, and acknowledges each.

consumer            PopConsumerImpl, the class
request             one pop: the fields of the request, and the messages of the answer
handles             texts by which a broker finds a message that it has given out
acks                tells brokers what was consumed, many messages in one request
"""
