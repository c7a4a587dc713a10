// Package nvidia implements gpu.Vendor and gpu.Memory for NVIDIA's GPUs: libnvidia-ml.so.1 through
// go-nvml for facts, settings and health; libcuda.so.1, opened at run time, for memory. Nothing of
// the CUDA toolkit is needed: the kernels are PTX text, compiled by the driver. The package is used
// only in the helper process.
//
// Both libraries are opened at the first request. A symbol that may be missing in this driver is
// looked up before it is called: with go-nvml a call of a missing symbol ends the process.
//
// The package binds go-nvml through cgo. A build without cgo reports that the library is missing,
// whatever the machine has.
package nvidia
