package profiles

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

func argTool(t *testing.T) *CommandProfile {
	t.Helper()
	set, problems := Parse(File{"set.yaml", []byte(strings.Replace(withArg(`
      {name: gpus, type: list, pattern: '[0-9a-f.:]+', max_items: 3, flag: "-i", join: ","},
      {name: each, type: list, pattern: '[a-z]+', max_items: 2, flag: "--each="},
      {name: mode, type: string, pattern: 'fast|slow|a\s'},
      {name: level, type: integer, minimum: 0, maximum: 9, flag: --level},
      {name: quiet, type: boolean, flag: -q}`), "gpu.runtime.check", "gpu.scrub.reset", 1))})
	if problems != nil {
		t.Fatal(problems)
	}
	p, _ := set.Command("tool")
	return p
}

func TestArgumentsBecomeArgvByTheirSchema(t *testing.T) {
	p := argTool(t)
	for _, c := range []struct {
		args map[string]any
		want []string
	}{
		{nil, nil},
		{map[string]any{"gpus": []string{"0000:3b:00.0", "1"}}, []string{"-i", "0000:3b:00.0,1"}},
		{map[string]any{"each": []any{"a", "b"}, "quiet": true}, []string{"--each=a", "--each=b", "-q"}},
		{map[string]any{"level": 3.0, "mode": "fast", "quiet": false}, []string{"fast", "--level", "3"}},
	} {
		got, err := p.Argv(c.args)
		if want := append([]string{"/usr/bin/tool", "status"}, c.want...); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %q, %v; want %q", c.args, got, err, want)
		}
	}
}

func TestArgumentsThatBreakTheirSchemaAreRefused(t *testing.T) {
	p := argTool(t)
	for name, args := range map[string]map[string]any{
		"an option":             {"gpus": []string{"--help"}},
		"an option in a string": {"mode": "-x"},
		"nothing":               {"mode": ""},
		"a control character":   {"mode": "a\n"},
		"a part that fits":      {"mode": "faster"},
		"an empty list":         {"gpus": []string{}},
		"a long list":           {"each": []string{"a", "b", "c"}},
		"the joining character": {"gpus": []string{"1,2"}},
		"a list of numbers":     {"gpus": []any{1}},
		"a text for a list":     {"gpus": "1"},
		"a number out of range": {"level": 10},
		"a negative number":     {"level": -1},
		"a broken number":       {"level": 1.5},
		"a text for a boolean":  {"quiet": "true"},
		"an unknown argument":   {"exec": "x"},
	} {
		if argv, err := p.Argv(args); taskcatalog.CodeOf(err, "") != CodeBadArgs {
			t.Errorf("%s: %q, %v", name, argv, err)
		}
	}
	p.ArgSchema[0].Required = true
	if _, err := p.Argv(nil); taskcatalog.CodeOf(err, "") != CodeBadArgs {
		t.Errorf("a required argument is missing: %v", err)
	}
}

func TestWhatRunsOtherProgramsIsKnownByName(t *testing.T) {
	for _, name := range strings.Fields(`sh bash dash zsh ksh ksh93 busybox env perl perl5.36 python python3 python3.11 pypy3 ruby3.1 node nodejs
		lua lua5.4 awk gawk mawk xargs sudo su ssh systemd-run nsenter chroot setsid timeout nohup BASH bash-5.2 ip find unshare
		qemu-x86_64-static ld-musl-x86_64.so.1 ld-linux.so.2 run-parts gdb busybox.static script.sh rbash docker
		ssh-agent service aa-exec split sort sqlite3 psql tcpdump iptables iptables-nft gpg curl wget cp mv tee dd install ln rm mount umount
		tar rsync git make strace perf bpftool modprobe insmod kexec reboot mkfs.ext4 mount.nfs4 nft setpci kill shutdown journalctl
		perl5.36-x86_64-linux-gnu x86_64-linux-gnu-gcc x86_64-linux-gnu-g++-12 g++-12 aarch64-linux-gnu-python3.11 python3.13t bash-static
		gdb-multiarch cuda-gdb rocm-gdb php-cgi8.2 gnudd gnuenv coreutils x86_64 i686 linux64 logsave msgexec mpirun mpirun.openmpi srun
		switch_root vimdiff vim.tiny nsys ncu rocprofv3 hwloc-bind x86_64-linux-gnu-objcopy nvidia-container-runtime.cdi torchrun apptainer`) {
		if !RunsOtherPrograms("/usr/bin/" + name) {
			t.Errorf("%s is taken", name)
		}
		if !NamesProgram("--with=/usr/bin/"+name) || !NamesProgram("-x/usr/bin/"+name) || !NamesProgram("../bin/"+name) {
			t.Errorf("%s is taken as an argument", name)
		}
	}
	for _, name := range strings.Fields(`nvidia-smi nvidia-ctk amd-smi amd-ctk rocm-smi systemctl lspci ibv_devinfo ibstat dcgmi nvidia-container-cli
		nvidia-fabricmanager nv-hostengine nvidia-debugdump rocminfo rocm_agent_enumerator rocm-bandwidth-test clinfo smartctl lstopo-no-graphics
		systemd-detect-virt x86_64-linux-gnu-readelf sha256sum nvbandwidth ib_write_bw xpu-smi lshw-x86_64`) {
		if RunsOtherPrograms("/usr/bin/" + name) {
			t.Errorf("%s is refused", name)
		}
	}
}

func TestOnlyAnArgumentThatNamesAProgramIsRefused(t *testing.T) {
	for _, arg := range []string{"/usr/bin/dd", "/usr/sbin/reboot", "--on-error=/usr/sbin/reboot", "bash", "--shell=bash", `{"hook":"/bin/sh"}`, "$(/bin/sh)", "file:///bin/sh", "/opt/hook.sh"} {
		if !NamesProgram(arg) {
			t.Errorf("%s is taken", arg)
		}
	}
	for _, arg := range []string{
		"--config=/etc/docker/daemon.json", "--config=/etc/nvidia-container-runtime/config.toml", "--output=/var/log/watch.log", "--format=csv,noheader",
		"--query-gpu=uuid,driver_version", "--date", "reset", "list", "0000:3b:00.0", "::03xx", "/sys/class/drm/card0", "10.0.0.0/8", "nvidia-fabricmanager.service",
	} {
		if NamesProgram(arg) {
			t.Errorf("%s is refused", arg)
		}
	}
}
