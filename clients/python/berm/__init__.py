"""Berm for Python: every agent its own computer.

    import berm

    with berm.Sandbox.create() as sb:
        print(sb.run(["uname", "-r"]).stdout)

AsyncSandbox, AsyncExec, AsyncFiles and AsyncClient offer the same methods for asyncio."""

import builtins as _builtins

from berm import errors, types
from berm._async.client import AsyncClient
from berm._async.exec import AsyncExec, AsyncStdin
from berm._async.files import AsyncFiles
from berm._async.sandbox import AsyncSandbox
from berm._async.session import AsyncSession
from berm._status import ArgumentError, ClosedError, DisconnectedError, ProgramFailedError, UnreachableError
from berm._sync.client import Client
from berm._sync.exec import Exec, Stdin
from berm._sync.files import Files
from berm._sync.sandbox import Sandbox
from berm._sync.session import Session
from berm.errors import *  # noqa: F403
from berm.types import *  # noqa: F403

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncExec",
    "AsyncFiles",
    "AsyncSandbox",
    "AsyncSession",
    "AsyncStdin",
    "ArgumentError",
    "Client",
    "ClosedError",
    "DisconnectedError",
    "Exec",
    "Files",
    "ProgramFailedError",
    "Sandbox",
    "Session",
    "Stdin",
    "UnreachableError",
    # `from berm import *` must not shadow builtins, so berm.FileNotFoundError and the like need their prefix.
    *(name for name in errors.__all__ if not hasattr(_builtins, name)),
    *types.__all__,
]
