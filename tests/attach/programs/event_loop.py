import asyncio
import sys

from common import ready


async def main():
    ready()
    while True:
        await asyncio.sleep(3600)


try:
    asyncio.run(main())
except SystemExit:
    sys.exit(0)
