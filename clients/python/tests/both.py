"""Runs the same test on both halves of the package. Tests are written for asyncio. For the sync half, this module runs each
call in a thread and returns an awaitable, so that the test code is the same."""

import asyncio
import inspect

import berm

OURS = (berm.Client, berm.Sandbox, berm.Exec, berm.Files, berm.Session, berm.Stdin)


class Both:
    """The entry points of one half, async or sync: both.client(...) and both.Sandbox."""

    def __init__(self, half):
        self.half = half

    def client(self, **options):
        return berm.AsyncClient(**options) if self.half == "async" else Wrapped(berm.Client(**options))

    @property
    def Sandbox(self):
        return berm.AsyncSandbox if self.half == "async" else Wrapped(berm.Sandbox)


class Wrapped:
    """Wraps an object of the sync half, so that tests can await its methods."""

    def __init__(self, value):
        self._value = value

    def __getattr__(self, name):
        found = getattr(self._value, name)
        if not inspect.ismethod(found):
            return wrap(found)
        if inspect.isgeneratorfunction(found) or name == "events":
            return lambda *args, **kwargs: Stream(found(*args, **unwrap(kwargs)))
        return lambda *args, **kwargs: Later(lambda: found(*args, **unwrap(kwargs)))

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        await asyncio.to_thread(self._value.__exit__, *error)

    def __aiter__(self):
        return Stream(iter(self._value))


class Stream:
    """Wraps a generator of the sync half as an async generator."""

    def __init__(self, generator):
        self._generator = generator

    def __aiter__(self):
        return self

    async def __anext__(self):
        value = await asyncio.to_thread(next, self._generator, self)
        if value is self:
            raise StopAsyncIteration
        return value

    async def aclose(self):
        await asyncio.to_thread(self._generator.close)


class Later:
    """Wraps a call of the sync half as an awaitable that runs it in a thread."""

    def __init__(self, call):
        self._call = call

    async def _run(self):
        return wrap(await asyncio.to_thread(self._call))

    def __await__(self):
        return self._run().__await__()

    async def __aenter__(self):
        self._opened = await self._run()
        return self._opened

    async def __aexit__(self, *error):
        await self._opened.__aexit__(*error)


def wrap(value):
    return Wrapped(value) if isinstance(value, OURS) else value


def unwrap(kwargs):
    return {key: value._value if isinstance(value, Wrapped) else value for key, value in kwargs.items()}
