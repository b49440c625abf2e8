"""One module per library, each with a class `Contender`.

A contender answers with `ring.ANSWER` after the handoffs that `ring.decide` asks for, in the library's own default way:

    async def relay(self) -> str                     one run in memory; several may be under way
    async def open(self, folder: Path) -> None       open the library's own persistence in a folder
    async def durable(self, conversation) -> str     one run in a new, persisted conversation
    async def turn(self, text) -> str                the next message of one persisted conversation
    async def resume(self, conversation) -> str      in a new process: go on with a run whose process was killed
    async def close(self) -> None
"""
