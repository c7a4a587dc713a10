package steps

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/agent/facts"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// Why the fabric is not as the plan wants it.
const (
	CodeFabricMissing     taskcatalog.Code = "fabric_missing" // an adapter is missing, or fewer ports are up than the plan wants
	CodeFabricPortDown    taskcatalog.Code = "fabric_port_down"
	CodeFabricPortSlow    taskcatalog.Code = "fabric_port_slow"
	CodeFabricPortUnknown taskcatalog.Code = "fabric_port_unknown" // what sysfs says is not understood
)

// maxGIDs bounds the addresses of a port that are looked at. Adapters have 256.
const maxGIDs = 1024

// verifyFabric looks at every port of the InfiniBand and RoCE adapters that lead off the machine.
// Nothing is proven of the way beyond the port: that is for programs that send.
func verifyFabric(_ context.Context, s *Step) (Proof, error) {
	want, counted := s.Args.Integer("ports")
	rate, _ := s.Args.Integer("rate")
	if counted && want == 0 {
		return Proof{}, taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "cannot verify the fabric: ports is 0 (leave it out for all ports)")
	}
	adapters, without, err := facts.FabricAdapters(s.Host.Machine)
	if err != nil {
		return Proof{}, taskcatalog.Errorf(CodeFabricPortUnknown, "cannot list the fabric's adapters: %v", err)
	}
	if len(adapters) == 0 && len(without) == 0 && !counted {
		return Proof{Nothing: true, Message: "this machine has no InfiniBand or RoCE adapter"}, nil
	}
	good, slowest := int64(0), 0.0
	var faults []error
	for _, address := range without {
		faults = append(faults, taskcatalog.Errorf(CodeFabricMissing,
			"the InfiniBand function %s is on the PCI bus and has no adapter in /sys/class/infiniband (look whether its driver works)", label(address)))
	}
	for _, dir := range adapters {
		ports, err := s.Host.Machine.Names(path.Join(dir, "ports"))
		if err != nil || len(ports) == 0 {
			faults = append(faults, taskcatalog.Errorf(CodeFabricPortUnknown, "adapter %s shows no port", label(path.Base(dir))))
			continue
		}
		slices.Sort(ports)
		for _, name := range ports {
			at := fabricPort{m: s.Host.Machine, dir: path.Join(dir, "ports", name), name: label(path.Base(dir) + "/" + name)}
			fast, err := at.verify(float64(rate))
			if err != nil {
				faults = append(faults, err)
				continue
			}
			if good++; good == 1 || fast < slowest {
				slowest = fast
			}
		}
	}
	switch {
	case len(faults) > 0 && (!counted || good < want):
		return Proof{}, firstOf(faults)
	case good < want:
		return Proof{}, taskcatalog.Errorf(CodeFabricMissing, "%d ports of the fabric are up, and the plan wants %d", good, want)
	}
	message := fmt.Sprintf("ports up: %d, the slowest with %g Gbit/s", good, slowest)
	if len(faults) > 0 {
		message += fmt.Sprintf("; not counted: %v", firstOf(faults))
	}
	return Proof{Message: message}, nil
}

// firstOf returns the first fault, with the number of the others.
func firstOf(faults []error) error {
	if len(faults) == 1 {
		return faults[0]
	}
	return taskcatalog.Errorf(taskcatalog.CodeOf(faults[0], CodeFabricPortUnknown), "%v (and %d more)", faults[0], len(faults)-1)
}

// label makes a name of the kernel's fit a message.
func label(name string) string { return taskcatalog.Clean(name, 80) }

// fabricPort is a port of an adapter in sysfs.
type fabricPort struct {
	m    *machine.Machine
	dir  string
	name string // for messages
}

// verify returns the port's rate in Gbit/s, or why the port is not good.
func (p fabricPort) verify(atLeast float64) (float64, error) {
	for _, want := range []struct{ attribute, up string }{{"state", "ACTIVE"}, {"phys_state", "LinkUp"}} {
		word, err := p.word(want.attribute)
		if err != nil {
			return 0, err
		}
		if word != want.up {
			return 0, taskcatalog.Errorf(CodeFabricPortDown, "port %s has the %s %s, not %s", p.name, want.attribute, label(word), want.up)
		}
	}
	text, err := p.read("rate")
	if err != nil {
		return 0, err
	}
	rate, ok := parsePortRate(text)
	if !ok {
		return 0, taskcatalog.Errorf(CodeFabricPortUnknown, "port %s: its rate %q is no number of Gb/sec", p.name, label(text))
	}
	if rate < atLeast {
		return 0, taskcatalog.Errorf(CodeFabricPortSlow, "port %s has %g Gbit/s, and the plan wants %g", p.name, rate, atLeast)
	}
	switch layer, err := p.read("link_layer"); {
	case err != nil:
		return 0, err
	case layer == "Ethernet":
		return rate, p.reachable()
	case layer != "InfiniBand":
		return 0, taskcatalog.Errorf(CodeFabricPortUnknown, "port %s has the unknown link layer %q", p.name, label(layer))
	}
	return rate, nil
}

// reachable reports whether a RoCE port has an address on a network interface that is up.
func (p fabricPort) reachable() error {
	const none = "0000:0000:0000:0000:0000:0000:0000:0000"
	indexes, err := p.m.Names(path.Join(p.dir, "gids"))
	if err != nil || len(indexes) > maxGIDs {
		return taskcatalog.Errorf(CodeFabricPortUnknown, "port %s: cannot list its addresses", p.name)
	}
	slices.Sort(indexes)
	down := ""
	for _, i := range indexes {
		gid, err := p.read("gids/" + i)
		if err != nil || gid == none || gid == "" {
			continue // of an index without an address the kernel shows zeros or an error
		}
		netdev, err := p.read("gid_attrs/ndevs/" + i)
		if err != nil || netdev == "" || strings.ContainsAny(netdev, "/") || netdev == ".." {
			continue
		}
		raw, err := p.m.ReadFile(path.Join("/sys/class/net", netdev, "operstate"), 64)
		state := strings.TrimSpace(string(raw))
		if err == nil && state == "up" {
			return nil
		}
		down = fmt.Sprintf(": interface %s is %s", label(netdev), label(cmp.Or(state, "unknown")))
	}
	return taskcatalog.Errorf(CodeFabricPortDown, "port %s has no RoCE address on an interface that is up%s", p.name, down)
}

func (p fabricPort) read(attribute string) (string, error) {
	raw, err := p.m.ReadFile(path.Join(p.dir, attribute), 4096)
	if err != nil {
		return "", taskcatalog.Errorf(CodeFabricPortUnknown, "port %s: cannot read its %s: %s", p.name, attribute, taskcatalog.Clean(err.Error(), 200))
	}
	return strings.TrimSpace(string(raw)), nil
}

// word returns the word of an attribute such as "4: ACTIVE".
func (p fabricPort) word(attribute string) (string, error) {
	text, err := p.read(attribute)
	if err != nil {
		return "", err
	}
	number, word, ok := strings.Cut(text, ": ")
	if _, err := strconv.Atoi(number); !ok || err != nil || word == "" {
		return "", taskcatalog.Errorf(CodeFabricPortUnknown, "port %s: its %s %q is not understood", p.name, attribute, label(text))
	}
	return word, nil
}

// parsePortRate reads "400 Gb/sec (4X NDR)" or "2.5 Gb/sec (1X SDR)".
func parsePortRate(text string) (float64, bool) {
	number, rest, ok := strings.Cut(text, " ")
	digits := strings.Trim(strings.Replace(number, ".", "", 1), "0123456789") == ""
	rate, err := strconv.ParseFloat(number, 64)
	unit := rest == "Gb/sec" || strings.HasPrefix(rest, "Gb/sec ")
	return rate, ok && digits && err == nil && unit && rate > 0 && rate < 1e6
}
