package fakegpu

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// places maps each file to its folder in the vendor's packages.
var places = map[string]map[string]string{
	"nvidia": {
		"libnvidia-ml.so.1": "usr/lib/x86_64-linux-gnu", "libcuda.so.1": "usr/lib/x86_64-linux-gnu",
		"nvidia-smi": "usr/bin", "nvidia-ctk": "usr/bin", "fakegpu-nodes": "usr/local/sbin", "fakegpu-tenant": "usr/local/bin",
	},
	"amd": {
		"libamd_smi.so": "usr/lib/x86_64-linux-gnu", "libamdhip64.so": "usr/lib/x86_64-linux-gnu",
		"libhiprtc.so": "usr/lib/x86_64-linux-gnu",
		"amd-smi":      "opt/rocm/bin", "amd-ctk": "usr/bin", "fakegpu-tenant-amd": "usr/local/bin",
	},
}

// Rootfs writes a tar to unpack at a machine's root. The machine then has the vendor's libraries
// and programs, and the GPUs of the config lines. Run ldconfig afterwards.
func Rootfs(w io.Writer, vendor string, config ...string) error {
	libs, err := Build()
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	add := func(name string, mode int64, content []byte) error {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err := archive.Write(content)
		return err
	}
	if len(places[vendor]) == 0 {
		return fmt.Errorf("there are no fakes of %q", vendor)
	}
	for name, dir := range places[vendor] {
		content, err := os.ReadFile(filepath.Join(libs, name))
		if err != nil {
			return err
		}
		if err := add(dir+"/"+name, 0o755, content); err != nil {
			return err
		}
	}
	if err := add("var/lib/fakegpu/config", 0o644, []byte("vendor "+vendor+"\n"+strings.Join(config, "\n")+"\n")); err != nil {
		return err
	}
	return archive.Close()
}
