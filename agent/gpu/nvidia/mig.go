//go:build cgo

package nvidia

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// destroyInstances destroys a GPU's MIG instances: the compute instances first, as the library
// requires. No instance may be in use.
func (v *vendor) destroyInstances(d nvml.Device) nvml.Return {
	for _, symbol := range []string{
		"nvmlDeviceGetGpuInstanceProfileInfo", "nvmlDeviceGetGpuInstances", "nvmlGpuInstanceDestroy",
		"nvmlGpuInstanceGetComputeInstanceProfileInfo", "nvmlGpuInstanceGetComputeInstances", "nvmlComputeInstanceDestroy",
	} {
		if !v.has(symbol) {
			return nvml.ERROR_FUNCTION_NOT_FOUND
		}
	}
	for profile := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, r := d.GetGpuInstanceProfileInfo(profile)
		if r != nvml.SUCCESS || info.InstanceCount == 0 {
			continue // profile not supported by this GPU
		}
		instances, r := d.GetGpuInstances(&info)
		if r != nvml.SUCCESS {
			return r
		}
		for _, in := range instances {
			if r := destroyCompute(in); r != nvml.SUCCESS {
				return r
			}
			if r := in.Destroy(); r != nvml.SUCCESS {
				return r
			}
		}
	}
	return nvml.SUCCESS
}

func destroyCompute(in nvml.GpuInstance) nvml.Return {
	for profile := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		for engines := range nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT {
			info, r := in.GetComputeInstanceProfileInfo(profile, engines)
			if r != nvml.SUCCESS || info.InstanceCount == 0 {
				continue
			}
			all, r := in.GetComputeInstances(&info)
			if r != nvml.SUCCESS {
				return r
			}
			for _, c := range all {
				if r := c.Destroy(); r != nvml.SUCCESS {
					return r
				}
			}
		}
	}
	return nvml.SUCCESS
}
