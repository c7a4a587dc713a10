package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/cleanup"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/terminal/unit"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// judgedProcess is a process with the attributes that identify it.
type judgedProcess struct {
	machine.Process
	exe  string
	unit string // as returned by unitOf
	// login is the cgroup of the process's session, or the unit of its user manager; empty for
	// other processes.
	login string
	// container reports whether the process is in a container's cgroup, or watches a container.
	container bool
	// unread says which attribute could not be read; nil for most processes.
	unread error
}

// remedy returns the action that ends the process: a cleanup ends processes in containers.
func (p judgedProcess) remedy() string {
	if p.container {
		return taskcatalog.ActionStorageCleanup
	}
	return taskcatalog.ActionReimage
}

func (p judgedProcess) key() string { return p.exe + " in " + p.unit }

// id identifies this process alone, whatever its program and name.
func (p judgedProcess) id() string { return fmt.Sprintf("process %d of %d", p.PID, p.Start) }

// helperGrace is how long helpers of a timer or a service may run before they are judged like
// other processes.
const helperGrace = time.Hour

// processes lists all processes except kernel threads, and in hidden the pids that the kernel lists
// but whose files it does not show. moved says that a process ended before the look: the process
// may have left another in its place.
func (v *validation) processes() (all []judgedProcess, hidden []int, moved string, err error) {
	pids, err := v.m.PIDs()
	if err != nil {
		return nil, nil, "", err
	}
	list, err := v.m.Processes()
	if err != nil {
		return nil, nil, "", err
	}
	ended := func(pid int) { moved = fmt.Sprintf("process %d ended before it could be checked", pid) }
	shown := map[int]bool{}
	for _, p := range list {
		shown[p.PID] = true
		if p.Kernel {
			continue
		}
		// A path of more than PATH_MAX bytes makes exe or cgroup unreadable. The error concerns
		// only this process.
		exe, unread := v.m.Exe(p.PID)
		if gone(unread) { // a kernel's helper and a zombie have no executable
			unread = nil
		}
		cgroup, err := v.m.Cgroup(p.PID)
		if gone(err) && v.foreignUID(p) < 0 { // a stranger's process counts even if it ended
			ended(p.PID)
			continue
		}
		if gone(err) {
			err = nil
		}
		all = append(all, judgedProcess{
			Process: p, exe: exe, unit: unitOf(cgroup), login: loginOf(cgroup), container: cleanup.Contained(cgroup),
			unread: cmp.Or(p.Unread, unread, err),
		})
	}
	for _, pid := range pids {
		// A directory of /proc without its files: something is mounted over it.
		switch has, err := v.m.Has(fmt.Sprintf("/proc/%d", pid)); {
		case shown[pid] || err != nil:
		case has:
			hidden = append(hidden, pid)
		default:
			ended(pid)
		}
	}
	return all, hidden, moved, nil
}

// foreignUID returns the index of the first of a process's uids that is unknown; -1: all are known.
func (v *validation) foreignUID(p machine.Process) int {
	return slices.IndexFunc(p.UIDs, func(u uint32) bool { return !v.knownUID(u) })
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

var (
	sessionScope = lazyregexp.New(`/user-(\d+)\.slice/session-[^/]*\.scope`)
	userManager  = lazyregexp.New(`/user-(\d+)\.slice/user@\d+\.service(/.*)?`)
)

// unitOf returns a stable name of a process's unit: without the number of a session and the
// instance of a user.
func unitOf(cgroup string) string {
	if m := sessionScope.FindStringSubmatch(cgroup); m != nil {
		return "session of uid " + m[1]
	}
	if m := userManager.FindStringSubmatch(cgroup); m != nil {
		return "user manager of uid " + m[1]
	}
	for _, part := range strings.Split(cgroup, "/") {
		if ext := path.Ext(part); ext == ".service" || ext == ".scope" {
			return part
		}
	}
	return strings.Trim(cgroup, "/")
}

// loginOf distinguishes sessions whose units have the same name.
func loginOf(cgroup string) string {
	if at := sessionScope.FindStringIndex(cgroup); at != nil {
		return cgroup[:at[1]]
	}
	if userManager.MatchString(cgroup) {
		return unitOf(cgroup)
	}
	return ""
}

// lookProcesses finds processes by owner first, then by executable and unit: an interpreter that
// one service may run is not permitted to another.
func lookProcesses(ctx context.Context, v *validation) (items []item, err error) {
	err = listUntilStable(ctx, func() (moved string, err error) {
		all, hidden, moved, err := v.processes()
		if err != nil {
			return "", err
		}
		now, err := v.judgeProcesses(all, hidden)
		items = addForeign(now, items)
		return moved, err
	})
	return items, err
}

func (v *validation) judgeProcesses(all []judgedProcess, hidden []int) ([]item, error) {
	self, _ := v.m.Exe(v.selfPID(all))
	logins := v.openLogins(all)
	uptime, err := v.m.Uptime()
	if err != nil {
		return nil, err
	}
	var items []item
	var unread error
	for _, p := range all {
		it := item{row: "processes", key: p.key(), id: p.id(), finding: taskcatalog.Finding{
			Subject: fmt.Sprintf("%d %s", p.PID, p.Name), Detail: join(p.exe, "in "+p.unit), NextAction: p.remedy(),
		}}
		if i := v.foreignUID(p.Process); i >= 0 && !v.takesBaseline {
			it.key = fmt.Sprintf("%s of uid %d", p.key(), p.UIDs[i])
			it.finding.Detail = join(it.finding.Detail, "of a uid that is not in the baseline")
			items = append(items, v.owner(it, p.UIDs[i], p.remedy()))
			unread = errors.Join(unread, p.unread)
			continue
		}
		if p.unread != nil { // the process may be anybody's: the row is inconclusive
			unread = errors.Join(unread, p.unread)
			continue
		}
		if unit.IsSession(p.unit) { // under any user: nobody may be let in now
			it.key, it.differs, it.finding.UID = p.unit, true, &p.UIDs[0]
			it.finding.Detail = join(it.finding.Detail,
				"of a terminal session that is still open (drain the node, or hostler terminal close)")
			items = append(items, it)
			continue
		}
		age := uptime - time.Duration(float64(p.Start)*machine.TickTime*float64(time.Second))
		switch {
		case p.Ended(), self != "" && p.exe == self:
		case v.policyKnows(p):
		case v.packaged(p.exe) && logins[p.login]:
		case v.packaged(p.exe) && strings.HasSuffix(p.unit, ".service") && v.unitKnown(p.unit) && age < helperGrace && !v.takesBaseline:
		default:
			it.finding.UID = &p.UIDs[0]
			items = append(items, it)
		}
	}
	for _, pid := range hidden {
		items = append(items, item{row: "processes", key: fmt.Sprintf("hidden %d", pid), differs: true, finding: taskcatalog.Finding{
			Subject: fmt.Sprint(pid), Detail: "a process whose directory in /proc is empty: a mount covers the directory",
		}})
	}
	if unread != nil && v.base != nil { // processes of an unknown uid are found all the same
		for i := range items {
			items[i].partial = items[i].finding.UID != nil && !v.knownUID(*items[i].finding.UID)
		}
	}
	return items, unread
}

// selfPID returns the agent's own pid; 0 if the agent is not among the processes.
func (v *validation) selfPID(all []judgedProcess) int {
	pid := unix.Getpid()
	if !v.m.Live() || !slices.ContainsFunc(all, func(p judgedProcess) bool { return p.PID == pid }) {
		return 0
	}
	return pid
}

// openLogins returns the sessions and user managers of known users who are logged in now, by login:
// for example an operator at work, whose shell runs the system's own programs. Leftovers of an
// earlier session are not included.
func (v *validation) openLogins(all []judgedProcess) map[string]bool {
	open := map[string]bool{}
	for _, p := range all {
		uid, ok := strings.CutPrefix(p.unit, "session of uid ")
		leader := slices.Contains([]string{"sshd", "sshd-session", "login"}, path.Base(p.exe))
		if !ok || p.login == "" || !leader || !v.packaged(p.exe) || !p.Has(0) {
			continue
		}
		for known := range v.users {
			if fmt.Sprint(known) == uid {
				open[p.login], open["user manager of uid "+uid] = true, true
			}
		}
	}
	return open
}

func (v *validation) policyKnows(p judgedProcess) bool {
	return p.exe != "" && slices.ContainsFunc(v.policy.KnownProcesses, func(s string) bool { return s == p.exe || s == path.Base(p.exe) })
}

// knownUID reports whether a uid is the baseline's, or a dynamic uid of systemd.
func (v *validation) knownUID(uid uint32) bool {
	if _, ours := v.account(uid); ours {
		return false
	}
	_, ok := v.users[uid]
	return ok || host.DynamicUser(uid) || uid == 65534
}

// unitKnown reports whether a unit's file comes from a package, or is in the policy or the
// baseline. An instance of a template is known if the template is.
func (v *validation) unitKnown(unit string) bool {
	names := []string{unit}
	if at := strings.IndexByte(unit, '@'); at > 0 {
		names = append(names, unit[:at+1]+path.Ext(unit))
	}
	return slices.ContainsFunc(names, func(name string) bool {
		if v.packaged("/usr/lib/systemd/system/"+name) || slices.Contains(v.policy.KnownUnits, name) {
			return true
		}
		return v.base != nil && slices.ContainsFunc(v.base.Units,
			func(f taskcatalog.BaselineFile) bool { return path.Base(f.Path) == name })
	})
}

// lookListeners compares listeners by protocol and port. Ephemeral ports differ from boot to boot:
// there the holder counts, if the holder is known.
func lookListeners(_ context.Context, v *validation) ([]item, error) {
	found, err := v.m.Listeners()
	if err != nil {
		return nil, err
	}
	inodes := map[uint64]bool{}
	for _, l := range found {
		inodes[l.Inode] = true
	}
	holders, err := v.m.SocketHolders(inodes)
	if err != nil {
		return nil, err
	}
	all, _, _, err := v.processes()
	if err != nil {
		return nil, err
	}
	self := v.selfPID(all)
	var items []item
	for _, l := range found {
		var holder *judgedProcess
		for i := range all {
			if slices.Contains(holders[l.Inode], all[i].PID) {
				holder = &all[i]
				break
			}
		}
		if holder != nil && holder.PID == self || slices.Contains(v.policy.KnownPorts, l.Name()) {
			continue
		}
		it := item{
			row: "listeners", key: l.Name(), id: fmt.Sprintf("socket %d", l.Inode),
			finding: taskcatalog.Finding{
				Subject: l.Name() + " at " + l.Addr.Addr().String(),
				Detail:  "of the kernel or a process that ended",
			},
		}
		if holder != nil {
			it.finding.Detail = fmt.Sprintf("%d %s; %s in %s", holder.PID, holder.Name, holder.exe, holder.unit)
			const firstEphemeral = 32768
			if l.Addr.Port() >= firstEphemeral && v.packaged(holder.exe) && v.has(item{row: "processes", key: holder.key()}) ||
				v.takesBaseline && l.Addr.Port() >= firstEphemeral {
				it.key = l.Proto + "/ephemeral " + holder.key()
			}
		}
		next := taskcatalog.ActionReimage
		if holder != nil && (holder.container || v.forwards(*holder)) {
			next = taskcatalog.ActionStorageCleanup
		}
		if !v.knownUID(l.UID) {
			it = v.owner(it, l.UID, next)
		} else {
			it.finding.UID, it.finding.NextAction = &l.UID, next
		}
		items = append(items, it)
	}
	return items, nil
}

// forwards reports whether a process is a docker-proxy: dockerd starts one for each published port
// of a container, and it ends with the container.
func (v *validation) forwards(p judgedProcess) bool {
	return path.Base(p.exe) == "docker-proxy" && p.unit == cleanup.DockerUnit && v.packaged(p.exe)
}
