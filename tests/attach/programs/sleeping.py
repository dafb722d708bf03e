import time

from common import ready

ready()
while True:
    time.sleep(60)
