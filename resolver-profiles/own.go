package profiles

import (
	_ "embed"
	"fmt"
	"sync"
)

var (
	//go:embed own/disktools.yaml
	diskTools []byte
	//go:embed own/bmctools.yaml
	bmcTools []byte
	//go:embed own/logtools.yaml
	logTools []byte
	//go:embed own/packagetools.yaml
	packageTools []byte
	//go:embed own/pythontools.yaml
	pythonTools []byte
	//go:embed own/clustertools.yaml
	clusterTools []byte
)

// ownMaxTimeout is for compiled-in profiles, in seconds: a drive may take days to erase itself.
const ownMaxTimeout = 4 * 24 * 3600

func (c *checker) maxTimeout() int {
	if c.own {
		return ownMaxTimeout
	}
	return maxTimeout
}

// DiskTools returns the command profiles that erase disks, by id. They belong to the agent: a
// profile from a file or a task can never become one of them.
func DiskTools() map[string]*CommandProfile { return readDiskTools() }

// BMCTools returns the command profiles that query a BMC, by id. They belong to the agent, as
// DiskTools do.
func BMCTools() map[string]*CommandProfile { return readBMCTools() }

// LogTools returns the command profiles that read the system's journal, by id. They belong to the
// agent, as DiskTools do.
func LogTools() map[string]*CommandProfile { return readLogTools() }

// PackageTools returns the command profiles that install packages, by id. They belong to the agent,
// as DiskTools do.
func PackageTools() map[string]*CommandProfile { return readPackageTools() }

// PythonTools returns the command profiles that make Python environments, by id. They belong to the
// agent, as DiskTools do.
func PythonTools() map[string]*CommandProfile { return readPythonTools() }

// ClusterTools returns the command profiles that make the machine a node of a cluster, by id. They belong
// to the agent, as DiskTools do.
func ClusterTools() map[string]*CommandProfile { return readClusterTools() }

var (
	readClusterTools = sync.OnceValue(func() map[string]*CommandProfile { return compiledIn("clustertools.yaml", clusterTools) })
	readPythonTools  = sync.OnceValue(func() map[string]*CommandProfile { return compiledIn("pythontools.yaml", pythonTools) })
	readPackageTools = sync.OnceValue(func() map[string]*CommandProfile { return compiledIn("packagetools.yaml", packageTools) })
	readDiskTools    = sync.OnceValue(func() map[string]*CommandProfile { return compiledIn("disktools.yaml", diskTools) })
	readBMCTools     = sync.OnceValue(func() map[string]*CommandProfile { return compiledIn("bmctools.yaml", bmcTools) })
	readLogTools     = sync.OnceValue(func() map[string]*CommandProfile { return compiledIn("logtools.yaml", logTools) })
)

func compiledIn(file string, text []byte) map[string]*CommandProfile {
	var found Problems
	set, where := &Set{}, places{}
	r := &reader{file: file, found: &found, where: where}
	if doc := r.document(text); doc != nil {
		r.set(doc, set)
	}
	c := &checker{set: set, where: where, own: true}
	all := map[string]*CommandProfile{}
	for i := range set.CommandProfiles {
		p := &set.CommandProfiles[i]
		c.command(partOf("command_profiles", i), p)
		p.own = true
		all[p.ID] = p
	}
	if found = append(found, c.found...); len(found) > 0 || len(all) != len(set.CommandProfiles) {
		panic(fmt.Sprintf("the compiled-in %s: %v", file, found))
	}
	return all
}

// Own reports whether the profile is compiled in. Such a profile may name programs that no set may
// name.
func (c *CommandProfile) Own() bool { return c.own }
