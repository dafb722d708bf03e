from common import ready

total = step = 0
ready()
while True:
    step += 1
    total = (total * 31 + step) % 1000003
