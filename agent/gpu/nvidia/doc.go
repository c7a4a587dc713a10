// Package nvidia is gpu.Vendor and gpu.Memory for NVIDIA: libnvidia-ml.so.1
// through go-nvml for what a GPU is, is set to and suffers from; libcuda.so.1,
// opened at run time, for its memory. Nothing of the CUDA toolkit is needed: the
// kernels are PTX text, which the driver compiles.
//
// Both libraries are looked for when first asked. A symbol that this driver does
// not have yet, or not any more, is looked up before it is called: with go-nvml a
// call of a missing one ends the process.
//
// The package binds go-nvml through cgo. Built without cgo it says that the
// library is missing, whatever the machine has.
package nvidia
