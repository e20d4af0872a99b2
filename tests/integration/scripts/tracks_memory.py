"""Tells a MemoryProfiler of 240,000 blocks in 6 steps, and then asks for all of them."""

from __future__ import annotations

import torch

from stepscope import MemoryEventType, MemoryProfiler

STEPS, BLOCKS = 6, 20_000

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
profiler = MemoryProfiler()
profiler.auto_snapshot = False
profiler.capture_stack_traces = True
for _ in range(STEPS):
    for number in range(BLOCKS):
        profiler.track_allocation(0x10000 + number * 64, 64, "pool")
    model(torch.randn(32, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    for number in range(BLOCKS):
        profiler.track_deallocation(0x10000 + number * 64, 64)
    profiler.get_statistics()

kinds = (MemoryEventType.ALLOCATION, MemoryEventType.DEALLOCATION)
events = [event for event in profiler.get_events() if event.memory_event_type in kinds]
found = profiler.get_statistics()
print("events", len(events), "dropped", found.dropped_events)
print("steps", len({event.step for event in events}))
print("last", events[-1].current_usage_bytes, events[-1].allocation_stack_trace[0].line)
