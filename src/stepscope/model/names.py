"""The names under which events are recorded: the one vocabulary of collectors and analysers.

Plain strings, no imports: the training process loads this module.
"""

from __future__ import annotations

from typing import Final

# Spans of the training loop. `arg` and `value` are stated where they mean something.
INPUT_ITER: Final = "input.iter"  # iter(loader); arg: id of the iterator it made
INPUT_NEXT: Final = "input.next"  # next(iterator); arg: id of the iterator; FAILED: exhausted
TRANSFER: Final = "transfer"  # a tensor moved to another device; arg: bytes moved
FORWARD: Final = "forward"  # outermost module call; arg: its id; value: one of these
FORWARD_WITH_GRADIENTS: Final = 1.0
FORWARD_WITHOUT: Final = 0.0  # no gradients, the module in train mode
FORWARD_IN_EVAL: Final = -1.0  # no gradients, the module in eval mode
FORWARD_ON_KNOWN: Final = -2.0  # no gradients, on a tensor that it was given before, several times
BACKWARD: Final = "backward"  # one run of the autograd engine
OPTIMIZER_STEP: Final = "optimizer.step"  # arg: id of the optimizer; an outermost one ends a step
OPTIMIZER_SCALE: Final = "optimizer.scale"  # GradScaler.unscale_ and update
OPTIMIZER_ZERO: Final = "optimizer.zero_grad"
OPTIMIZER_CLIP: Final = "optimizer.clip"  # gradient clipping
LOSS: Final = "loss"  # sample in trials and watched runs: what a backward pass began with
METRIC: Final = "metric"  # sample of stepscope.metric(); text: the name that the program gave it;
# arg: the step that it gave, -1: none
SAVE: Final = "save"  # torch.save and its like; arg: bytes written where known
GC: Final = "gc"  # one collection; value: objects collected; arg: the generation in its low 8 bits
# and above them how many objects could not be collected
GC_GENERATION_BITS: Final = 8

# The same spans as the device saw them (CUDA events, queried later), on the device's track.
DEVICE_PREFIX: Final = "device."

# Marks.
LOADER: Final = "loader"  # iter(loader); arg: id of the iterator; text: JSON of its settings
PROCESS_EXIT: Final = "process.exit"  # the interpreter of this process is shutting down
HOOK_FAILED: Final = "stepscope.hook_failed"  # an error inside stepscope; text: where and what

# Spans of a loader's worker, on its main thread unless said otherwise; with its CPU clock.
# `input.…`: the same in the training process (num_workers=0, and the receiving end).
WORKER_START: Final = "worker.start"  # from the start of the process to its first look for work
WORKER_IDLE: Final = "worker.idle"  # waits for the number of the next batch
WORKER_FETCH: Final = "worker.fetch"  # one batch: dataset and collate; arg: its number
SAMPLE: Final = "input.sample"  # one item of the dataset; arg: its index, -1: not known;
# value: how many it stands for (fast ones are thinned out); the same of transform and collate
TRANSFORM: Final = "input.transform"  # arg: number of a `transform` mark
COLLATE: Final = "input.collate"
SERIALISE: Final = "worker.serialise"  # in the queue's feeder thread; arg: bytes
DESERIALISE: Final = "input.deserialise"  # in the training process, or its pin thread
PIN: Final = "input.pin"
WORKER: Final = "worker"  # mark; arg: its number; text: JSON: loader, dataset class, file and line
TRANSFORM_NAME: Final = "transform"  # mark; arg: a number; text: "class\tfile\tline"
# Samples of a worker, or of the training thread without workers: sums over the fetches of the
# batches that were read, at the end of each of these; arg: how many batches that are.
WORKER_RUN_DELAY_NS: Final = "worker.run_delay_ns"
WORKER_READ_BYTES: Final = "worker.read_bytes"
WORKER_READ_CHARS: Final = "worker.read_chars"
WORKER_WRITE_BYTES: Final = "worker.write_bytes"
WORKER_SYSTEM_NS: Final = "worker.system_ns"  # CPU time in the kernel

# Layers and operators, on sampled steps.
LAYERS_BEGIN: Final = "layers.begin"  # mark: this step is sampled; arg: how many modules
LAYERS_END: Final = "layers.end"  # mark: all of that step's layers were told; arg: own cost in ns
LAYER: Final = "layer"  # mark; arg: number; text: "path\tclass\tnumber of the outermost module"
LAYER_FORWARD: Final = "layer.forward"  # span of one call, recorded when the step is over and
# without what the timing itself took; arg: number of the layer; value: ns of the calls inside it
LAYER_BACKWARD: Final = "layer.backward"  # the same, of the call's part of a backward
LAYER_SAVED_BYTES: Final = "layer.saved_bytes"  # sample; arg: number of the layer; value: what one
# call keeps for backward and no call before it kept
OP: Final = "op"  # mark; arg: self ns over the profiled steps; text: "name\tcalls\tsteps"
OP_LOGGED: Final = "op.logged"  # mark; arg: calls in the logged step; text: JSON, what it was given
# (collect/op_log.py); {"again": true}: those before do not count
# Activation checkpoints of the program (collect/recomputations.py).
CHECKPOINT_LAYER: Final = "checkpoint.layer"  # mark; arg: number; text: JSON: layer, and file, line
# and function of the call where known
CHECKPOINT_AGAIN: Final = "checkpoint.recompute"  # span of a recomputation; arg: number of the
# layer, 0: one of those that are too many
CHECKPOINT_SAVED: Final = "checkpoint.saved_bytes"  # sample, on sampled steps; arg: number of the
# layer; value: bytes that its calls did not keep, all together when that was most
CHECKPOINT_LEFT: Final = "checkpoint.left_bytes"  # sample, once a sampled step, while it is
# recomputed; value: left under the nearest limit; arg: the limit; text: its kind

TRAIT: Final = "trait"  # mark; text: "name\tJSON": a fact about the program (model/traits.py)

# Operations: blocks that the program itself named (profilers/). `text` of all these is the identity
# of the operation, "<number of its profiler>/<name>".
OPERATION: Final = "operation"  # span of one run of it; value: CPU ns of this process within it
OPERATION_BEGIN: Final = "operation.begin"  # mark, on the thread that enters; where lines are kept
# Marks with totals since the profiler was made; arg: the total.
OPERATION_CALLS: Final = "operation.calls"
OPERATION_FAILED: Final = "operation.failed"  # an exception left it
OPERATION_WALL_NS: Final = "operation.wall_ns"
OPERATION_USER_NS: Final = "operation.user_ns"  # this process and the children it waited for
OPERATION_SYSTEM_NS: Final = "operation.system_ns"
OPERATION_SHORTEST_NS: Final = "operation.shortest_ns"
OPERATION_LONGEST_NS: Final = "operation.longest_ns"
OPERATION_FLOPS: Final = "operation.flops"

# Checkpointing that a CheckpointProfiler counts (record/protocol.py, Tally); mark. duration_ns: how
# long it took, up to then; text: "type\tlayer"; arg: bytes; cpu_start_ns: by how many bytes what is
# in use changed; cpu_ns: number of the profile; value: how many events it stands for.
CHECKPOINTING_EVENT: Final = "checkpointing.event"

# Closer looks that somebody asked for while the program runs (collect/captures.py).
CAPTURE_BEGIN: Final = "capture.begin"  # mark; arg: its number; text: JSON of what was asked for
CAPTURE_END: Final = "capture.end"  # mark; arg: its number; text: JSON: steps seen, or why none
CAPTURE_MEMORY: Final = "capture.memory"  # mark; arg: its number; text: JSON: a line, and the bytes
# that it held at the end of each step, of what was allocated since the capture began

# Stacks.
STACK: Final = "stack"  # sample of a thread; arg: number of the stack; value: ns it stands for;
# text: the innermost span that was open on that thread; flag NATIVE: it ran C that Python called
# A mark; arg: number; text: "caller\tline\tfunction\tfile". Frames of ours have own_code.OWN_FILE.
STACK_FRAME: Final = "stack.frame"

# Memory that the program itself tells us about (profilers/memory.py); of type ALLOCATION. arg:
# address; value: bytes; text: type of memory; cpu_start_ns: number of the stack that allocated it,
# 0: not taken; cpu_ns: number of the profiler. Times of neighbours may be up to 0.2 ms off.
TRACKED_ALLOC: Final = "tracked.alloc"
TRACKED_FREE: Final = "tracked.free"
TRACKED_MOVED: Final = "tracked.moved"  # where a block was before the resize, or second booking,
# that follows
TRACKED_RESIZE: Final = "tracked.resize"  # where it is now
TRACKED_SNAPSHOT: Final = "tracked.snapshot"  # arg: live blocks; value: live bytes; no type
TRACKED_TOTALS: Final = (
    "tracked.totals"  # before the rows that follow; arg: bytes allocated so far;
)
# value: bytes freed so far
TRACKED: Final = (  # in the order in which the core takes them
    TRACKED_ALLOC,
    TRACKED_FREE,
    TRACKED_MOVED,
    TRACKED_RESIZE,
    TRACKED_SNAPSHOT,
    TRACKED_TOTALS,
)
TRACKED_FRAME: Final = "tracked.frame"  # mark; arg: number of the stack, profiler << 32 above it;
# text: as of stack.frame

# Samples about stepscope itself. Cumulative since the process began, unless said otherwise.
OWN_DROPPED: Final = "stepscope.dropped"  # events that found their ring full
OWN_LOST: Final = "stepscope.lost"  # events that could not be written to disk
OWN_LEFT_OUT: Final = "stepscope.left_out"  # mark: of a long run, events were left out on purpose;
# time_ns, duration_ns: when they were; arg: optimizer steps that ended there; value: how many
OWN_WRITER_CPU_NS: Final = "stepscope.writer_cpu_ns"  # CPU time of the writer thread
OWN_CALLS: Final = "stepscope.calls"  # hook calls that recorded a span
OWN_PROBES: Final = "stepscope.probes"  # hook calls that only looked (nested modules)
OWN_CLOCKS: Final = "stepscope.clocks"  # readings of threads' CPU clocks
OWN_CALL_COST_NS: Final = "stepscope.call_cost_ns"  # cost of one recorded call, calibrated here
OWN_CLOCK_COST_NS: Final = "stepscope.clock_cost_ns"  # cost of one such reading, calibrated here
OWN_PROBE_COST_NS: Final = "stepscope.probe_cost_ns"  # cost of one probe, calibrated here
OWN_STEP_ENDS_NS: Final = "stepscope.step_ends_ns"  # wall time at the ends of steps: the least
# that one took, times their number
OWN_REFERENCE_NS: Final = "stepscope.reference_ns"  # wall time that timing the machine took
OWN_STARTUP_NS: Final = "stepscope.startup_ns"  # wall time spent joining this process
TORCH_IMPORT_NS: Final = "stepscope.torch_import_ns"  # wall time of the program's import of torch
OWN_RUN_COST_NS: Final = "stepscope.run_cost_ns"  # cost of one run of an operation, calibrated
OWN_LOOKS_NS: Final = "stepscope.looks_ns"  # wall time of the program that readings at ends took
OWN_SAMPLED_NS: Final = "stepscope.sampled_ns"  # wall time of the program that sampled steps cost
OWN_OP_LOG_NS: Final = "stepscope.op_log_ns"  # what logging the operators of a step took
OWN_OPERATORS_NS: Final = "stepscope.operators_ns"  # what reading torch.profiler's records took
OWN_SAMPLER_CPU_NS: Final = "stepscope.sampler_cpu_ns"  # CPU time of the sampler in the program
OWN_STACKS_CPU_NS: Final = "stepscope.stacks_cpu_ns"  # CPU time of what samples stacks, and names
OWN_CPU_NS: Final = "stepscope.launcher_cpu_ns"  # CPU time of the launcher

# Samples about a process; arg: its pid. Counters are cumulative since that process began.
PROCESS_CPU_NS: Final = "process.cpu_ns"  # user + system
PROCESS_SYSTEM_CPU_NS: Final = "process.system_cpu_ns"  # the system's part of it
PROCESS_REAPED_CPU_NS: Final = "process.reaped_cpu_ns"  # of children that ended and were waited for
PROCESS_RSS_BYTES: Final = "process.rss_bytes"  # gauge
PROCESS_OWN_RSS_BYTES: Final = "process.own_rss_bytes"  # the same, sampled by itself; gauge
PROCESS_PEAK_RSS_BYTES: Final = "process.peak_rss_bytes"  # the kernel's mark since its last reset
PROCESS_SHARED_BYTES: Final = "process.shared_bytes"  # of the RSS, shared memory; gauge
PROCESS_READ_BYTES: Final = "process.read_bytes"  # from a disk
PROCESS_READ_CHARS: Final = "process.read_chars"  # by read(), cached or not
PROCESS_WRITE_BYTES: Final = "process.write_bytes"  # to a disk
PROCESS_MAJOR_FAULTS: Final = "process.major_faults"
PROCESS_MINOR_FAULTS: Final = "process.minor_faults"
PROCESS_RUN_DELAY_NS: Final = "process.run_delay_ns"  # runnable, waiting for a CPU, all threads
PROCESS_MAIN_DELAY_NS: Final = "process.main_delay_ns"  # the same, main thread alone
PROCESS_BLOCKED_IO_NS: Final = "process.blocked_io_ns"  # waiting for a disk, main thread
PROCESS_SWITCHES: Final = "process.context_switches"  # voluntary and not
PROCESS_THREADS: Final = "process.threads"  # gauge

# Memory of tensors and of what libraries take for themselves (collect/tensor_memory.py). In events
# of type ALLOCATION the columns have meanings of their own: cpu_start_ns is the number of the stack
# (0: none), cpu_ns that of the layer at work (0: none), flags what the block is for: 0 not known, 1
# to 7 by the order of model/memory.py, 8 a library's own; text is the innermost open span.
MEMORY_ALLOC: Final = "memory.alloc"  # arg: address; value: bytes; on steps that are looked at
MEMORY_FREE: Final = "memory.free"  # arg: address; value: bytes; stack and label of the allocation
MEMORY_LABEL: Final = "memory.label"  # arg: address; flags: what it has turned out to be for
MEMORY_REFUSED: Final = "memory.refused"  # value: bytes that could not be had
MEMORY_HELD: Final = "memory.held"  # arg: blocks; value: bytes that this stack holds for this
# purpose, where that has changed since it was told last
MEMORY_PEAK: Final = "memory.peak"  # arg: bytes of the highest peak so far, in all; value: bytes
# that this stack held then; step: when that was
MEMORY_WINDOW: Final = "memory.window"  # mark: all that is held was told
MEMORY_LOOK_BEGIN: Final = "memory.look_begin"  # mark: from here every block is told; arg: bytes
MEMORY_LOOK_END: Final = "memory.look_end"  # mark: to here; arg: bytes
MEMORY_STEP_PEAK: Final = "memory.step_peak_bytes"  # sample at a step end; arg: bytes at that end
MEMORY_TOTAL: Final = "memory.total"  # mark at a window; text: JSON of the core's totals()
MEMORY_SEEN: Final = "memory.seen"  # mark; text: JSON: which libraries are watched, or why none
MEMORY_LIMIT: Final = "memory.limit"  # sample: bytes; arg: what counts against it now; text: kind
MEMORY_GARBAGE: Final = "memory.garbage"  # mark; arg: stack; text: JSON: what a collection freed
MEMORY_HOLDER: Final = "memory.holder"  # mark; arg: stack; text: JSON: who refers to its blocks
HELD_BY_GRAPH: Final = "the autograd graph of a tensor"  # there, of blocks no Python object has
MEMORY_RSS: Final = "memory.rss_bytes"  # sample at a window; arg: of it, shared with others
MEMORY_BEFORE: Final = "memory.before_bytes"  # the same, when the first tensor could be seen
MEMORY_PINNED: Final = "memory.pinned_bytes"  # sample at a window: page-locked, by torch
MEMORY_CUDA: Final = "memory.cuda_history"  # mark; text: name of a file of the run
HEAP_RESERVED: Final = "heap.reserved_bytes"  # sample at a window: libc's allocator, without
# mappings of single blocks; arg: bytes of those
HEAP_FREE: Final = "heap.free_bytes"  # sample: of these, not in use; arg: the free piece at the top
PYTHON_LINE: Final = "python.line_bytes"  # sample; arg: blocks; text: "line\tfile" (tracemalloc)
OWN_LOOK: Final = "stepscope.look"  # span: a long look of ours: no time of the program's
OWN_MEMORY_NS: Final = "stepscope.memory_ns"  # wall time of the program that all this cost

# Samples about Python's own memory, where tracemalloc is on.
PYTHON_PEAK_BYTES: Final = "python.peak_bytes"  # since the sample before it

# Samples about the host.
REFERENCE_NS: Final = "host.reference_ns"  # what a piece of work took that is always the same
HOST_CPU_COUNT: Final = "host.cpu_count"  # CPUs this run may use, quota included; gauge
HOST_CPU_BUSY_NS: Final = "host.cpu_busy_ns"  # all CPUs, cumulative
HOST_CPU_IOWAIT_NS: Final = "host.cpu_iowait_ns"
HOST_MEMORY_TOTAL_BYTES: Final = "host.memory_total_bytes"
HOST_MEMORY_AVAILABLE_BYTES: Final = "host.memory_available_bytes"  # gauge
HOST_SWAP_IN_PAGES: Final = "host.swap_in_pages"
HOST_DISK_READ_BYTES: Final = "host.disk_read_bytes"
HOST_DISK_WRITE_BYTES: Final = "host.disk_write_bytes"
HOST_DISK_BUSY_NS: Final = "host.disk_busy_ns"  # arg: index of the disk
HOST_NET_RECEIVED_BYTES: Final = "host.net_received_bytes"
HOST_NET_SENT_BYTES: Final = "host.net_sent_bytes"
HOST_PRESSURE_CPU_NS: Final = "host.pressure_cpu_ns"  # /proc/pressure "some", cumulative
HOST_PRESSURE_IO_NS: Final = "host.pressure_io_ns"
HOST_PRESSURE_MEMORY_NS: Final = "host.pressure_memory_ns"

# Energy, cumulative joules; arg: index of the package, of the GPU.
ENERGY_CPU_JOULES: Final = "energy.cpu_joules"  # RAPL, a whole CPU package
ENERGY_DRAM_JOULES: Final = "energy.dram_joules"  # RAPL
ENERGY_GPU_JOULES: Final = "energy.gpu_joules"  # NVML, a whole GPU

# Samples about a GPU; arg: its index.
GPU_BUSY_SHARE: Final = "gpu.busy_share"  # 0 to 1
GPU_MEMORY_USED_BYTES: Final = "gpu.memory_used_bytes"
GPU_MEMORY_TOTAL_BYTES: Final = "gpu.memory_total_bytes"
GPU_POWER_WATTS: Final = "gpu.power_watts"
GPU_TEMPERATURE_CELSIUS: Final = "gpu.temperature_celsius"
GPU_CLOCK_SHARE: Final = "gpu.clock_share"  # of the highest clock of its processors
GPU_ALLOCATED_BYTES: Final = "gpu.allocated_bytes"  # torch's allocator, at a step end
GPU_RESERVED_BYTES: Final = "gpu.reserved_bytes"
GPU_PEAK_ALLOCATED_BYTES: Final = "gpu.peak_allocated_bytes"  # since the sample before it
