"""An agent outside with its tools in a sandbox ("mode 2"): deepagents on Berm.

    bermd &
    python examples/deepagents_agent.py

The agent, its model and its keys run here; every command and every file that it uses is in the sandbox. The model is
scripted, so that the example needs no key and always ends the same way. Replace it with a real one, such as
create_deep_agent(model="anthropic:claude-sonnet-4-5", ...); the rest stays the same.
"""

from collections.abc import Sequence
from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

import berm
from berm.integrations.deepagents import BermBackend

PROGRAM = """\
def primes(limit):
    sieve = [True] * (limit + 1)
    for n in range(2, limit + 1):
        if sieve[n]:
            yield n
            sieve[n * n :: n] = [False] * len(sieve[n * n :: n])

print(sum(primes(10_000)))
"""


class ScriptedModel(GenericFakeChatModel):
    """Says what it was given to say, whatever tools it is offered."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> "ScriptedModel":
        return self


def tool(name: str, **arguments: Any) -> AIMessage:
    call = {"name": name, "args": arguments, "id": f"call-{name}", "type": "tool_call"}
    return AIMessage(content="", tool_calls=[call])


SCRIPT = [
    tool("write_file", file_path="/workspace/primes.py", content=PROGRAM),
    tool("execute", command="python3 primes.py | tee answer.txt"),
    tool("edit_file", file_path="/workspace/primes.py", old_string="10_000", new_string="100"),
    tool("grep", pattern="primes(100)", path="/workspace"),
    tool("read_file", file_path="/workspace/answer.txt"),
    AIMessage(content="The primes up to 10,000 add up to 5736396."),
]


def main() -> None:
    with berm.Sandbox.create(labels={"example": "deepagents"}) as sandbox:
        agent = create_deep_agent(model=ScriptedModel(messages=iter(SCRIPT)), backend=BermBackend(sandbox))
        question = "What do the primes up to 10,000 add up to? Compute it, do not guess."
        result = agent.invoke({"messages": [{"role": "user", "content": question}]})
        for message in result["messages"]:
            for call in getattr(message, "tool_calls", []):
                print(f"{call['name']}({', '.join(call['args'])})")
            if message.content:
                print(f"{message.type}: {message.text}")
        print("in the sandbox:", [event.argv[-1] for event in sandbox.events(follow=False, kinds=["exec_start"])])


if __name__ == "__main__":
    main()
