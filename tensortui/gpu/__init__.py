"""What the driver says, through NVML. Every figure may be absent, with the reason."""

from tensortui.gpu.processes import GpuProcesses, gpu_processes

__all__ = ["GpuProcesses", "gpu_processes"]
