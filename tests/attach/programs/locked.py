import _thread

from common import ready

lock = _thread.allocate_lock()
lock.acquire()
ready()
lock.acquire()
