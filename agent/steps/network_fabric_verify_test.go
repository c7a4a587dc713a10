package steps_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

// sysfs is a tree of files by their paths below /sys/class; "->" begins a link.
type sysfs map[string]string

func infiniband(adapter string) sysfs {
	at := "infiniband/" + adapter + "/ports/1/"
	return sysfs{
		at + "state": "4: ACTIVE\n", at + "phys_state": "5: LinkUp\n", at + "rate": "400 Gb/sec (4X NDR)\n", at + "link_layer": "InfiniBand\n",
	}
}

func roce(adapter, netdev string) sysfs {
	at := "infiniband/" + adapter + "/ports/1/"
	return infiniband(adapter).and(sysfs{
		at + "link_layer": "Ethernet\n", at + "rate": "200 Gb/sec (4X HDR)\n",
		at + "gids/0": "0000:0000:0000:0000:0000:0000:0000:0000\n", at + "gids/1": "fe80:0000:0000:0000:5aa2:e1ff:fe12:3456\n",
		at + "gid_attrs/ndevs/1":       netdev + "\n",
		"net/" + netdev + "/operstate": "up\n",
		"net/" + netdev + "/address":   "58:a2:e1:12:34:56\n",
	})
}

func (s sysfs) and(more ...sysfs) sysfs {
	all := maps.Clone(s)
	for _, one := range more {
		maps.Copy(all, one)
	}
	return all
}

func (s sysfs) without(name string) sysfs {
	all := maps.Clone(s)
	delete(all, name)
	return all
}

func verifyFabric(t *testing.T, tree sysfs, args steps.Args) (steps.Proof, error) {
	t.Helper()
	h, dir := hosttest.Box(t)
	for name, text := range tree {
		file := filepath.Join(dir, "sys/class", name)
		if to, link := strings.CutPrefix(text, "->"); link {
			hosttest.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
			hosttest.OK(t, os.Symlink(to, file))
			continue
		}
		hosttest.Put(t, dir, "sys/class/"+name, text)
	}
	kind, ok := steps.Lookup("network.fabric.verify")
	if !ok || kind.Look != nil {
		t.Fatal("a fabric that was up is not proven to be up now")
	}
	return kind.Do(t.Context(), &steps.Step{Host: h, Args: args})
}

func TestAPortOfTheFabricIsGoodOnlyIfEveryAttributeSaysSo(t *testing.T) {
	const at = "infiniband/mlx5_0/ports/1/"
	ib, ethernet := infiniband("mlx5_0"), roce("mlx5_0", "ens1np0")
	for name, c := range map[string]struct {
		tree sysfs
		args steps.Args
		code taskcatalog.Code
		says string
	}{
		"InfiniBand":                   {ib, nil, "", "ports up: 1, the slowest with 400 Gbit/s"},
		"RoCE":                         {ethernet, nil, "", "ports up: 1, the slowest with 200 Gbit/s"},
		"both":                         {ib.and(roce("mlx5_1", "ens2np0")), nil, "", "ports up: 2, the slowest with 200 Gbit/s"},
		"as fast as wanted":            {ib, steps.Args{"rate": int64(400)}, "", "400"},
		"a fraction":                   {ib.and(sysfs{at + "rate": "2.5 Gb/sec (1X SDR)\n"}), nil, "", "2.5 Gbit/s"},
		"slow":                         {ib.and(sysfs{at + "rate": "200 Gb/sec (4X HDR)\n"}), steps.Args{"rate": int64(400)}, steps.CodeFabricPortSlow, "has 200 Gbit/s"},
		"down":                         {ib.and(sysfs{at + "state": "1: DOWN\n"}), nil, steps.CodeFabricPortDown, "mlx5_0/1 has the state DOWN"},
		"initializing":                 {ib.and(sysfs{at + "state": "2: INIT\n"}), nil, steps.CodeFabricPortDown, "INIT"},
		"an unknown state":             {ib.and(sysfs{at + "state": "7: ACTIVE_AGAIN\n"}), nil, steps.CodeFabricPortDown, "ACTIVE_AGAIN"},
		"a state without a word":       {ib.and(sysfs{at + "state": "4\n"}), nil, steps.CodeFabricPortUnknown, `"4" is not understood`},
		"a word without a state":       {ib.and(sysfs{at + "state": "ACTIVE\n"}), nil, steps.CodeFabricPortUnknown, ""},
		"no state":                     {ib.without(at + "state"), nil, steps.CodeFabricPortUnknown, "cannot read its state"},
		"polling":                      {ib.and(sysfs{at + "phys_state": "2: Polling\n"}), nil, steps.CodeFabricPortDown, "Polling"},
		"no physical state":            {ib.without(at + "phys_state"), nil, steps.CodeFabricPortUnknown, ""},
		"an empty physical state":      {ib.and(sysfs{at + "phys_state": ""}), nil, steps.CodeFabricPortUnknown, ""},
		"no rate":                      {ib.without(at + "rate"), nil, steps.CodeFabricPortUnknown, ""},
		"a rate in another unit":       {ib.and(sysfs{at + "rate": "400 Tb/sec\n"}), nil, steps.CodeFabricPortUnknown, ""},
		"a rate that is not a number":  {ib.and(sysfs{at + "rate": "Inf Gb/sec\n"}), nil, steps.CodeFabricPortUnknown, ""},
		"a rate in another base":       {ib.and(sysfs{at + "rate": "0x400 Gb/sec\n"}), nil, steps.CodeFabricPortUnknown, ""},
		"a rate with an exponent":      {ib.and(sysfs{at + "rate": "4e2 Gb/sec\n"}), nil, steps.CodeFabricPortUnknown, ""},
		"a negative rate":              {ib.and(sysfs{at + "rate": "-1 Gb/sec\n"}), nil, steps.CodeFabricPortUnknown, ""},
		"a rate of zero":               {ib.and(sysfs{at + "rate": "0 Gb/sec\n"}), nil, steps.CodeFabricPortUnknown, ""},
		"an unknown link layer":        {ib.and(sysfs{at + "link_layer": "Unspecified\n"}), nil, steps.CodeFabricPortUnknown, ""},
		"no link layer":                {ib.without(at + "link_layer"), nil, steps.CodeFabricPortUnknown, ""},
		"text for a terminal":          {ib.and(sysfs{at + "state": "4: \x1b[2J\n"}), nil, steps.CodeFabricPortDown, `\x1b[2J`},
		"text without end":             {ib.and(sysfs{at + "state": "4: " + strings.Repeat("A", 9000)}), nil, steps.CodeFabricPortUnknown, "larger than"},
		"an adapter without ports":     {sysfs{"infiniband/mlx5_0/fw_ver": "28.39\n"}, nil, steps.CodeFabricPortUnknown, "mlx5_0 shows no port"},
		"a link out of the tree":       {ib.and(sysfs{at + "state": "->/../../../../../../etc/hostname-of-another"}), nil, steps.CodeFabricPortUnknown, ""},
		"RoCE, its interface down":     {ethernet.and(sysfs{"net/ens1np0/operstate": "down\n"}), nil, steps.CodeFabricPortDown, "interface ens1np0 is down"},
		"RoCE, interface unknown":      {ethernet.and(sysfs{"net/ens1np0/operstate": "unknown\n"}), nil, steps.CodeFabricPortDown, "unknown"},
		"RoCE without an address":      {ethernet.and(sysfs{at + "gids/1": "0000:0000:0000:0000:0000:0000:0000:0000\n"}), nil, steps.CodeFabricPortDown, "no RoCE address"},
		"RoCE without a list of them":  {infiniband("mlx5_0").and(sysfs{at + "link_layer": "Ethernet\n"}), nil, steps.CodeFabricPortDown, "no RoCE address"},
		"RoCE without an interface":    {ethernet.without(at + "gid_attrs/ndevs/1"), nil, steps.CodeFabricPortDown, ""},
		"RoCE on a name that leads up": {ethernet.and(sysfs{at + "gid_attrs/ndevs/1": "../net/ens1np0\n"}), nil, steps.CodeFabricPortDown, ""},
	} {
		proof, err := verifyFabric(t, c.tree, c.args)
		said := proof.Message
		if err != nil {
			said = err.Error()
		}
		if got := taskcatalog.CodeOf(err, ""); got != c.code || proof.Nothing || !strings.Contains(said, c.says) || err != nil && got == "" {
			t.Errorf("%s: %q with code %q, want %q", name, said, got, c.code)
		}
		if strings.ContainsRune(said, 0x1b) || len(said) > 600 {
			t.Errorf("%s: the message is no line for people: %q", name, said)
		}
	}
}

func TestThePlanSaysHowManyPortsMustBeUp(t *testing.T) {
	two := infiniband("mlx5_0").and(infiniband("mlx5_1"))
	down := two.and(sysfs{"infiniband/mlx5_1/ports/1/state": "1: DOWN\n"})
	wants := func(n int64) steps.Args { return steps.Args{"ports": n} }
	for name, c := range map[string]struct {
		tree sysfs
		args steps.Args
		code taskcatalog.Code
	}{
		"all of them":                     {two, nil, ""},
		"as many as there are":            {two, wants(2), ""},
		"fewer":                           {two, wants(1), ""},
		"more":                            {two, wants(3), steps.CodeFabricMissing},
		"one is down, all are wanted":     {down, nil, steps.CodeFabricPortDown},
		"one is down, two are wanted":     {down, wants(2), steps.CodeFabricPortDown},
		"one is down, one is wanted":      {down, wants(1), ""},
		"none is there, one is wanted":    {nil, wants(1), steps.CodeFabricMissing},
		"none is wanted":                  {two, wants(0), taskcatalog.CodePlanInvalid},
		"none is there and none is asked": {nil, wants(0), taskcatalog.CodePlanInvalid},
	} {
		proof, err := verifyFabric(t, c.tree, c.args)
		if got := taskcatalog.CodeOf(err, ""); got != c.code || proof.Nothing {
			t.Errorf("%s: %+v, %v with code %q, want %q", name, proof, err, got, c.code)
		}
	}
	proof, err := verifyFabric(t, down, wants(1))
	if err != nil || !strings.Contains(proof.Message, "not counted: port mlx5_1/1") {
		t.Errorf("a port that is down beside enough others is not told: %+v, %v", proof, err)
	}
}

func TestAMachineWithoutAFabricHasNothingToVerify(t *testing.T) {
	proof, err := verifyFabric(t, nil, nil)
	if err != nil || !proof.Nothing || proof.Message == "" {
		t.Errorf("got %+v, %v", proof, err)
	}
}

// The InfiniBand functions of an NVLink 5 board lead to its switches and to no other node.
func TestPortsOfTheGPUBoardAreNoPortsOfTheFabric(t *testing.T) {
	board := func(vpd string) sysfs {
		tree := infiniband("mlx5_0").and(infiniband("mlx5_9"), sysfs{
			"infiniband/mlx5_9/device": "->../../../devices/0000:17:00.0", "infiniband/mlx5_9/ports/1/state": "1: DOWN\n",
			"../bus/pci/devices/0000:17:00.0/class": "0x020700\n", "../bus/pci/devices/0000:17:00.0/vendor": "0x15b3\n",
			"../bus/pci/devices/0000:1b:00.0/class": "0x030200\n", "../bus/pci/devices/0000:1b:00.0/vendor": "0x10de\n",
		})
		if vpd != "" {
			tree["../bus/pci/devices/0000:17:00.0/vpd"] = vpd
		}
		return tree
	}
	if proof, err := verifyFabric(t, board("..SW_MNG.."), nil); err != nil || !strings.HasPrefix(proof.Message, "ports up: 1") {
		t.Errorf("the board's own: %+v, %v", proof, err)
	}
	if _, err := verifyFabric(t, board("an adapter"), nil); taskcatalog.CodeOf(err, "") != steps.CodeFabricPortDown {
		t.Errorf("an adapter: %v", err)
	}
	if _, err := verifyFabric(t, board(strings.Repeat("x", 40<<10)), nil); taskcatalog.CodeOf(err, "") != steps.CodeFabricPortUnknown {
		t.Errorf("a function of which it is not known: %v", err)
	}
}

func TestAnInfiniBandFunctionWithoutAnAdapterIsAMissingFabric(t *testing.T) {
	function := sysfs{"../bus/pci/devices/0000:2a:00.0/class": "0x020700\n", "../bus/pci/devices/0000:2a:00.0/vendor": "0x15b3\n"}
	board := sysfs{
		"../bus/pci/devices/0000:1b:00.0/class": "0x030200\n", "../bus/pci/devices/0000:1b:00.0/vendor": "0x10de\n",
		"../bus/pci/devices/0000:2a:00.0/vpd": "..SW_MNG..",
	}
	virtual := sysfs{"../bus/pci/devices/0000:2a:00.0/physfn": "->../0000:29:00.0"}
	for name, c := range map[string]struct {
		tree    sysfs
		args    steps.Args
		code    taskcatalog.Code
		nothing bool
	}{
		"alone":                              {function, nil, steps.CodeFabricMissing, false},
		"beside an adapter":                  {function.and(infiniband("mlx5_0")), nil, steps.CodeFabricMissing, false},
		"beside as many as are wanted":       {function.and(infiniband("mlx5_0")), steps.Args{"ports": int64(1)}, "", false},
		"beside fewer than are wanted":       {function.and(infiniband("mlx5_0")), steps.Args{"ports": int64(2)}, steps.CodeFabricMissing, false},
		"with its adapter":                   {function.and(infiniband("mlx5_0"), sysfs{"infiniband/mlx5_0/device": "->../../../devices/0000:2a:00.0"}), nil, "", false},
		"of the GPU board":                   {function.and(board), nil, "", true},
		"that is a virtual one":              {function.and(virtual), nil, "", true},
		"that is no InfiniBand but Ethernet": {function.and(sysfs{"../bus/pci/devices/0000:2a:00.0/class": "0x020000\n"}), nil, "", true},
	} {
		proof, err := verifyFabric(t, c.tree, c.args)
		if taskcatalog.CodeOf(err, "") != c.code || proof.Nothing != c.nothing {
			t.Errorf("%s: %+v, %v", name, proof, err)
		}
	}
}
