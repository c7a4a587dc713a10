package users

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/ledger"
	"github.com/hostler/hostler/taskcatalog"
)

// lending is a node with its ledger on disk, and every uid that the node gave.
type lending struct {
	*testing.T
	host  *host.Host
	state string
	open  *ledger.Ledger
	given map[uint32]string
}

func newLending(t *testing.T) *lending {
	h, _ := hosttest.Box(t)
	l := &lending{T: t, host: h, state: t.TempDir(), given: map[uint32]string{}}
	l.restart()
	t.Cleanup(func() { l.open.Close() })
	return l
}

// restart plays a new start of the agent: only the data on disk is known.
func (l *lending) restart() {
	l.Helper()
	if l.open != nil {
		l.must(l.open.Close())
	}
	var err error
	l.open, err = ledger.Open(l.state)
	l.must(err)
	l.host.Accounts, l.host.Marks = l.open.Accounts(), l.open
}

func (l *lending) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lending) provision(allocation, user string) (*taskcatalog.ProvisionUserResult, error) {
	res, _, err := Provision(context.Background(), &host.Run{Host: l.host, Params: &taskcatalog.ProvisionUserParams{
		AllocationID: allocation, Username: user, SSHKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJxq x"},
	}})
	if err != nil {
		return nil, err
	}
	return res.(*taskcatalog.ProvisionUserResult), nil
}

// lend provisions a user and requires a uid that nobody had before.
func (l *lending) lend(allocation, user string) uint32 {
	l.Helper()
	res, err := l.provision(allocation, user)
	l.must(err)
	if before, twice := l.given[res.UID]; twice {
		l.Errorf("uid %d of %s is given to %s", res.UID, before, allocation)
	}
	if res.UID < host.FirstUID || res.UID > host.LastUID || res.GID != res.UID {
		l.Errorf("%s has uid %d, gid %d", allocation, res.UID, res.GID)
	}
	l.given[res.UID] = allocation
	return res.UID
}

func (l *lending) revoke(allocation, user string) {
	l.Helper()
	_, _, err := Revoke(context.Background(), &host.Run{Host: l.host, Params: &taskcatalog.RevokeUserParams{AllocationID: allocation, Username: user, GraceSeconds: 1}})
	l.must(err)
}

func TestAUIDIsNeverGivenTwiceByRevokesAndRestarts(t *testing.T) {
	l := newLending(t)
	for i := range 3 {
		id := fmt.Sprintf("a-%d", i)
		l.lend(id, "alice") // the same name again
		l.lend(id+"b", "bob")
		l.revoke(id, "alice")
		l.restart()
		l.lend(id, "carol") // the same allocation again
		l.revoke(id+"b", "bob")
		l.restart()
		l.revoke(id, "carol")
	}
	if left, err := l.host.Accounts.List(); err != nil || len(left) > 0 {
		t.Errorf("left are %+v, %v", left, err)
	}
	if len(l.given) != 9 {
		t.Errorf("%d uids were given: %v", len(l.given), l.given)
	}
}

// The same allocation's task, repeated on a restarted agent, returns the same user and takes no new
// uid.
func TestAnAllocationKeepsItsUIDOverARestart(t *testing.T) {
	l := newLending(t)
	first := l.lend("a-1", "alice")
	l.restart()
	again, err := l.provision("a-1", "alice")
	if err != nil || again.UID != first || again.Created {
		t.Errorf("got %+v, %v, want uid %d", again, err, first)
	}
}

// crash is a record of accounts whose agent dies during a write.
type crash struct{ host.Accounts }

var errCrash = errors.New("killed")

func (crash) Put(host.Account) error { return errCrash }

func TestAUIDThatACrashTookIsNotGivenAgain(t *testing.T) {
	l := newLending(t)
	l.host.Accounts = crash{l.host.Accounts}
	if _, err := l.provision("a-1", "alice"); !errors.Is(err, errCrash) {
		t.Fatalf("got %v", err)
	}
	l.restart()
	// The uid after FirstUID: FirstUID may have been reported to somebody.
	if uid := l.lend("a-1", "alice"); uid != host.FirstUID+1 {
		t.Errorf("uid %d is given", uid)
	}
}

// Other accounts and groups hold the next uids.
func TestAUIDThatTheNodeHasIsPassedOver(t *testing.T) {
	l := newLending(t)
	name := filepath.Join(l.host.Machine.Dir(), "etc/passwd")
	raw, err := os.ReadFile(name)
	l.must(err)
	l.must(os.WriteFile(name, fmt.Appendf(raw, "site:x:%d:100::/nonexistent:/bin/sh\nother:x:500:%d::/nonexistent:/bin/sh\n", host.FirstUID, host.FirstUID+1), 0o644))
	name = filepath.Join(l.host.Machine.Dir(), "etc/group")
	raw, err = os.ReadFile(name)
	l.must(err)
	l.must(os.WriteFile(name, fmt.Appendf(raw, "site:x:%d:\n", host.FirstUID+2), 0o644))
	if uid := l.lend("a-1", "alice"); uid != host.FirstUID+3 {
		t.Errorf("uid %d is given", uid)
	}
}

// A tenant with root knows which uids come next. Its processes take them, one in each of the four
// ids, so that the next tenant's user would own them.
func TestAUIDThatAProcessWaitsForIsPassedOver(t *testing.T) {
	l := newLending(t)
	dir := l.host.Machine.Dir()
	const stat = "%d (x) S 1 9 9 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 18446744073709551615 0 0 0 0 0 0\n"
	for i := range uint32(4) {
		ids := [4]uint32{65534, 65534, 65534, 65534}
		ids[i] = host.FirstUID + i
		pid := 900 + i
		hosttest.Put(t, dir, fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf(stat, pid))
		hosttest.Put(t, dir, fmt.Sprintf("proc/%d/status", pid), fmt.Sprintf("Name:\tx\nUid:\t%d\t%d\t%d\t%d\n", ids[0], ids[1], ids[2], ids[3]))
	}
	if uid := l.lend("a-1", "alice"); uid != host.FirstUID+4 {
		t.Errorf("uid %d is given", uid)
	}
	// A process that cannot be looked at may have any uid.
	hosttest.Put(t, dir, "proc/950/stat", fmt.Sprintf(stat, 950))
	hosttest.Put(t, dir, "proc/950/status", "Name:\tx\n")
	if _, err := l.provision("a-2", "bob"); taskcatalog.CodeOf(err, "") != "process_unread" {
		t.Errorf("got %v", err)
	}
}
