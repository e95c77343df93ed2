"""The sum of gradients over the processes of a training, while the backward pass that completes them still runs.

torch's DistributedDataParallel does the same, in messages of the same size and in the order in which gradients become
complete. It cannot go on after memory ran out within that backward pass, when some messages are sent and others are
not; here the process then sends the other messages, and all processes begin the update again.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as distributed
from torch import Tensor, nn

from phrasemt.training.process_group import ProcessGroup

# Size of a message, as in DistributedDataParallel: large enough for a network's full speed, small enough that most
# messages travel during the backward pass.
_BYTES_PER_MESSAGE = 25 * 2**20

Message = list[nn.Parameter]


class GradientSum:
    """Sums the gradients of parameters over the processes of a group, in place, once in an update.

    The first backward pass shows in which order gradients become complete; the messages of all updates follow it, so a
    resumed training adds in the same order.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], group: ProcessGroup) -> None:
        self._parameters, self._group = list(parameters), group
        self._messages: list[Message] | None = None
        self._message_of: dict[nn.Parameter, int] = {}
        self._in_last_pass = False
        self._complete: list[nn.Parameter] = []
        self._missing: list[int] = []
        self._sent: list[tuple[Tensor, distributed.Work]] = []
        if group.size > 1:
            for parameter in self._parameters:
                parameter.register_post_accumulate_grad_hook(self._completed)  # type: ignore[no-untyped-call]

    def begin_last_pass(self) -> None:
        """The next backward pass is the last one of an update in this process."""
        self._in_last_pass = True

    def finish(self) -> None:
        """Send what the last pass has not sent, with zeros for missing gradients, and wait for all sums.

        Every process calls this once in each update, also one whose memory ran out. Raises LostProcessError.
        """
        self._in_last_pass = False
        if self._group.size == 1:
            return
        if self._messages is None:
            self._arrange()
        assert self._messages is not None
        for parameter in self._parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        for message in self._messages[len(self._sent) :]:
            self._send(message)
        for message, (flat, work) in zip(self._messages, self._sent, strict=True):
            with self._group.together():
                work.wait()
            sums = torch.split(flat, [parameter.numel() for parameter in message])
            for parameter, total in zip(message, sums, strict=True):
                assert parameter.grad is not None
                parameter.grad.copy_(total.view_as(parameter))
        self._sent.clear()
        self._missing = [len(message) for message in self._messages]

    def _completed(self, parameter: nn.Parameter) -> None:
        """A backward pass has completed this gradient. Send all messages that are complete, in their order."""
        if not self._in_last_pass:
            return
        if self._messages is None:
            self._complete.append(parameter)
            return
        self._missing[self._message_of[parameter]] -= 1
        while len(self._sent) < len(self._messages) and not self._missing[len(self._sent)]:
            self._send(self._messages[len(self._sent)])

    def _send(self, message: Message) -> None:
        flat = torch.cat([parameter.grad.flatten() for parameter in message if parameter.grad is not None])
        with self._group.together():
            work = distributed.all_reduce(flat, async_op=True)
        assert work is not None
        self._sent.append((flat, work))

    def _arrange(self) -> None:
        """Divide the parameters into messages, in the order in which the first process completed their gradients."""
        numbers = {parameter: number for number, parameter in enumerate(self._parameters)}
        first = [numbers[parameter] for parameter in self._complete]
        order = self._group.broadcast([*first, *sorted(set(numbers.values()).difference(first))])
        self._messages, size = [[]], 0
        for number in order:
            if size >= _BYTES_PER_MESSAGE:
                self._messages.append([])
                size = 0
            self._messages[-1].append(self._parameters[number])
            size += self._parameters[number].nbytes
        self._message_of = {one: index for index, message in enumerate(self._messages) for one in message}
        self._complete.clear()
