"""PopConsumerImpl: takes messages one by one for a while and acknowledges each.

consumer            the class
request             one pop: what is asked, and the messages of the answer
handles             by which a broker finds a message that it has given out
acks                brokers are told what was dealt with, many messages in a request
"""
