"""Takes one message off a queue and prints it as JSON: read.py URL QUEUE"""
import base64
import json
import sys

import pika

connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1] + "/%2f"))
method, properties, body = connection.channel().basic_get(sys.argv[2], auto_ack=True)
assert method is not None, "the queue is empty"
names = ["content_type", "delivery_mode", "message_id", "timestamp", "type", "app_id", "headers"]
message = {name: getattr(properties, name) for name in names}
message["routing_key"] = method.routing_key
message["body"] = base64.b64encode(body).decode()
print(json.dumps(message))
connection.close()
