package taskcatalog

import "testing"

func TestScratchNeverReachesTheSystem(t *testing.T) {
	for pattern, want := range map[string]string{
		"/share*": "", "/data/scratch": "", "/var/scratch": "", "/mnt/nvme*": "", "/home2": "", "/opt/scratch": "", "/bin2": "",
		"/": "/", "/*": "/", "/var": "/var", "/v*": "/var", "/home": "/home", "/tmp": "/tmp", "/var/*": "/var/lib",
		"/usr": "/usr", "/usr/share": "/usr", "/u*/share": "/usr", "/usr/local/*": "/usr", "/var/lib/dpkg/info": "/var/lib/dpkg", "/var/lib/sys*": "/var/lib/systemd",
	} {
		if got := ScratchReaches(pattern); got != want {
			t.Errorf("%s reaches %q, want %q", pattern, got, want)
		}
	}
}
