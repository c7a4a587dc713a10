package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// yard is a broker with machines that come and go.
type yard struct {
	*process
	identity, recipient string
}

func newYard(t *testing.T) *yard {
	y := &yard{process: newProcess(t, `{"require_hw_sync":false,"enable_phase2_roce":false,"drain_timeout_seconds":60}`, func(_ *process, next http.Handler) http.Handler { return next })}
	id, err := age.GenerateX25519Identity()
	if err == nil {
		y.identity, y.recipient = filepath.Join(y.dir, "identity"), id.Recipient().String()
		err = os.WriteFile(y.identity, []byte(id.String()+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// command runs the program beside the broker, with the same clock.
func (y *yard) command(args ...string) string {
	y.t.Helper()
	c := exec.Command("hostler-broker", args...)
	c.Env = append(os.Environ(), clockFile+"="+y.clock)
	out, err := c.CombinedOutput()
	if err != nil {
		y.t.Fatalf("hostler-broker %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// pass lets time go by until ok.
func (y *yard) pass(what string, ok func() (there bool, last string)) {
	y.t.Helper()
	last := ""
	for late := time.Now().Add(2 * time.Minute); time.Now().Before(late); <-time.After(20 * time.Millisecond) {
		there, said := ok()
		if last = said; there {
			return
		}
		y.Advance(5 * time.Second)
	}
	y.t.Fatalf("waited in vain for %s: %s", what, last)
}

// machine is a machine that was brought up, with its agent.
type machine struct {
	run, hostname, system string
	*servertest.Node
}

// deploys brings machines up in parallel, as far as possible without their agents.
func (y *yard) deploys(from, to int) (all []*machine) {
	y.t.Helper()
	for n := from; n <= to; n++ {
		box := y.box(n)
		o := servertest.Must[api.Onboarding](y.t, y.Broker, http.MethodPost, "/onboardings", api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: box})
		all = append(all, &machine{run: o.OnboardingID, hostname: box.Hostname})
	}
	for _, m := range all {
		y.pass("the agent's turn", func() (bool, string) {
			d := y.onboarding(m.run)
			if d.MAASSystemID != nil {
				m.system = *d.MAASSystemID
			}
			return d.CurrentStage == "wait_for_agent_enrollment", d.Status + " at " + d.CurrentStage + " " + d.ErrorMessage
		})
	}
	return all
}

func (y *yard) onboarding(id string) api.OnboardingDetail {
	y.t.Helper()
	return servertest.Must[api.OnboardingDetail](y.t, y.Broker, http.MethodGet, "/onboardings/"+id, nil)
}

// arrives is the first boot of a deployed machine's agent.
func (y *yard) arrives(m *machine) *servertest.Node {
	y.t.Helper()
	is, _ := y.region.Machine(m.system)
	return y.EnrollMachine(y.t, string(enrolToken.Find(is.UserData)), m.hostname, m.system)
}

// comeUp lets the agents of machines enrol, and waits until their nodes are active.
func (y *yard) comeUp(all ...*machine) {
	y.t.Helper()
	y.settle()
	for _, m := range all {
		m.Node = y.arrives(m).Settle(y.t)
	}
	for _, m := range all {
		y.pass("the end of an onboarding", func() (bool, string) {
			d := y.onboarding(m.run)
			return d.Ended, d.Status + " at " + d.CurrentStage + " " + d.ErrorMessage
		})
	}
}

// begins takes nodes out of service.
func (y *yard) begins(mode string, all []*machine) (runs []string) {
	y.t.Helper()
	for _, m := range all {
		d := servertest.Must[api.Decommission](y.t, y.Broker, http.MethodPost, "/nodes/"+m.hostname+"/decommission", api.DecommissionStart{Mode: mode, Erase: "none", Reason: "a test"})
		runs = append(runs, d.DecommissionID)
	}
	return runs
}

// turns waits until runs reach a stage, or their end.
func (y *yard) turns(runs []string, stage string) {
	y.t.Helper()
	for _, id := range runs {
		y.pass("a turnover", func() (bool, string) {
			is := servertest.Must[api.DecommissionDetail](y.t, y.Broker, http.MethodGet, "/decommissions/"+id, nil)
			return is.CurrentStage == stage || is.Ended, is.Mode + " is " + is.Status + " at " + is.CurrentStage + " " + is.ErrorCode + " " + is.ErrorMessage + " " + is.Waiting
		})
	}
}

// settle waits until nodes are answered: after a leap of the clock the deny list is too old.
func (y *yard) settle() {
	y.t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: pki.PinnedConfig(y.RootSHA256(), "127.0.0.1", y.Now)}}
	defer client.CloseIdleConnections()
	in := 0 // in a row: the program sees a new clock a moment later
	servertest.Eventually(y.t, "nodes to be answered", func() bool {
		res, err := client.Post(y.AgentURL()+"/internal/v1/nodes/enroll", "application/json", strings.NewReader("{}"))
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		if in++; res.StatusCode == http.StatusServiceUnavailable {
			in = 0
		}
		return in == 10
	})
}

// awaitMAAS waits until the broker has compared its records with MAAS.
func (y *yard) awaitMAAS() {
	y.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(y.data(), "hostler.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		y.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	servertest.Eventually(y.t, "MAAS's word", func() bool {
		n := -1
		err := db.QueryRow(`SELECT COUNT(*) FROM restored_nodes r JOIN nodes n ON n.id = r.node_id WHERE n.maas_system_id <> '' AND r.machine = ''`).Scan(&n)
		return err == nil && n == 0
	})
}

// In the hour after the backup there were ten enrolments, five reimages and two retirements, and
// one onboarding was under way. The broker of the backup deploys nothing, releases nothing, and
// lets nobody back in.
func TestAnHourOldBackupDeploysNothingAndLetsNobodyBackIn(t *testing.T) {
	y := newYard(t)
	all := y.deploys(1, 9)
	reimaged, retired, stays, late := all[:5], all[5:7], all[7], all[8]
	y.comeUp(all[:8]...)
	operator := y.NewToken(t, api.TokenCreate{Name: "mallory", Role: "operator", TTLSeconds: 86400})
	file := filepath.Join(y.dir, "backup.age")
	said := y.command("backup", "--data-dir", y.data(), "--recipient", y.recipient, file)
	if !strings.Contains(said, "root CA   "+y.RootSHA256()) || strings.Count(said, ": inside") != 5 {
		t.Errorf("the backup says: %s", said)
	}

	y.Advance(20 * time.Minute)
	y.settle()
	y.command("token", "revoke", "mallory", "--data-dir", y.data())
	y.comeUp(late)
	gone, turned := y.begins("full_decommission", retired), y.begins("reimage", reimaged)
	y.turns(gone, "")
	y.turns(turned, "wait_for_agent_enrollment")
	y.settle()
	fresh := map[*machine]*servertest.Node{}
	for _, m := range reimaged {
		fresh[m] = y.arrives(m)
		fresh[m].Offered(t) // the node is heard, and the previous system is denied
	}
	var made []*servertest.Node
	for i := range 10 {
		made = append(made, y.NewNode(t, api.NodeCreate{Hostname: fmt.Sprint("new-", i), Site: "dc1", Bootstrap: "command"}))
	}
	y.Advance(20 * time.Minute)
	y.settle()

	y.kill()
	lost := y.data() + ".lost"
	if err := os.Rename(y.data(), lost); err != nil {
		t.Fatal(err)
	}
	deploys, releases := y.region.Count("deploy"), y.region.Count("release")
	nothing := func(when string) {
		t.Helper()
		if d, r := y.region.Count("deploy"), y.region.Count("release"); d != deploys || r != releases {
			t.Errorf("%s: %d deploys and %d releases, and there were %d and %d", when, d, r, deploys, releases)
		}
	}
	said = y.command("restore", "--data-dir", y.data(), "--identity", y.identity, "--ca-sha256", y.RootSHA256(), file)
	if !strings.Contains(said, "the broker is on hold: 9 nodes must renew") {
		t.Errorf("the restore says: %s", said)
	}
	y.boot()
	if a := y.Ask(t, operator, http.MethodGet, "/nodes", nil); a.Code() != "token_revoked" {
		t.Errorf("a revoked token is answered %d %s", a.Status, a.Body)
	}
	secret := y.command("token", "create", "--data-dir", y.data(), "--name", "ann", "--role", "platform_admin")
	y.Token = strings.TrimSpace(secret[strings.Index(secret, "hso_"):])
	y.awaitMAAS()

	renews := func(what string, n *servertest.Node, want string) {
		t.Helper()
		if _, code, err := n.Try(http.MethodGet, "/tasks/wait?lanes=exclusive"); err != nil || code != "certificate_expired" {
			t.Errorf("%s polls and is answered %s, %v", what, code, err)
		}
		if code := n.TryRenew(t); code != want {
			t.Errorf("%s renews and is answered %q, want %q", what, code, want)
		}
	}
	for _, m := range reimaged {
		renews("the system before a reimage", m.Node, "restored_not_accepted")
		renews("the system after a reimage", fresh[m], "")
		n := servertest.Must[api.Node](t, y.Broker, http.MethodGet, "/nodes/"+m.NodeID, nil)
		if n.Epoch != fresh[m].Epoch || n.Status != "quarantined" {
			t.Errorf("a reimaged node is %s at epoch %d", n.Status, n.Epoch)
		}
	}
	for _, m := range retired {
		renews("a retired node", m.Node, "restored_not_accepted")
	}
	renews("a node that nothing happened to", stays.Node, "")
	renews("a node that came after the backup", late.Node, "")
	for _, n := range made {
		renews("a node that was made after the backup", n, "restored_unknown_node")
	}

	// A node remembers the tasks that it carried out after the backup.
	d, task := stays.Next(t)
	if task.Type != "node.task_list" {
		t.Fatalf("a node that is let in is asked for a %s", task.Type)
	}
	stays.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.TaskListResult{Tasks: []taskcatalog.TaskMemory{
		{TaskID: d.TaskID, Type: task.Type, State: "started", AcceptedAt: y.Now()},
		{TaskID: "t-lost", Type: "node.disk_erase", State: "finished", Outcome: taskcatalog.OutcomeSucceeded, AcceptedAt: y.Now().Add(-10 * time.Minute)},
	}}, taskcatalog.Report{})
	servertest.Eventually(t, "its ledger to be compared", func() bool {
		return strings.Contains(y.command("restore", "--data-dir", y.data(), "--list"), "task/t-lost")
	})

	drain := func() api.Task {
		return servertest.Must[api.Task](t, y.Broker, http.MethodPost, "/nodes/"+stays.NodeID+"/tasks", api.TaskCreate{Type: "node.drain"})
	}
	drain()
	if d := stays.Offered(t); len(d) != 0 {
		t.Errorf("handed out while held: %+v", d)
	}
	for range 4 {
		y.Advance(30 * time.Minute)
		y.settle()
	}
	nothing("two hours later")

	list := y.command("restore", "--data-dir", y.data(), "--list")
	wanted := []string{"run/" + late.run + " ", "node/" + late.NodeID + " ", "machine_not_its_own", "deployed_again", "enrolled_again", "node_unknown", "task_unknown", made[9].NodeID}
	for _, m := range append(reimaged, retired...) {
		wanted = append(wanted, "node/"+m.NodeID+" ")
	}
	for _, want := range wanted {
		if !strings.Contains(list, want) {
			t.Errorf("%s is not listed", want)
		}
	}
	if t.Failed() {
		t.Log(list)
	}

	early, err := exec.Command("hostler-broker", "restore", "--data-dir", y.data(), "--release", "--reason", "compared").CombinedOutput()
	if err == nil || !strings.Contains(string(early), "error: not_compared: cannot release: node ") {
		t.Errorf("released before the nodes have told what they did: %v: %s", err, early)
	}
	y.command("restore", "--data-dir", y.data(), "--release", "--force", "--reason", "compared")
	want := drain()
	if d, task := stays.Next(t); d.TaskID != want.ID {
		t.Errorf("after the release it gets a %s", task.Type)
	}
	for range 2 {
		y.Advance(30 * time.Minute)
		y.settle()
	}
	nothing("after the release")
	for _, m := range retired {
		renews("a retired node, after the release", m.Node, "restored_not_accepted")
	}
	if d := y.onboarding(late.run); d.Status != "failed_manual_intervention" || d.ErrorCode != "restored_from_backup" {
		t.Errorf("the run that was under way is %s with %s", d.Status, d.ErrorCode)
	}
}
