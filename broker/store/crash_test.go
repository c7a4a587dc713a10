package store_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

const crashURL = "HOSTLER_STORE_CRASH_URL"

// TestMain runs the tests, or a writer that will be killed.
func TestMain(m *testing.M) {
	if url := os.Getenv(crashURL); url != "" {
		writeUntilKilled(url)
	}
	if url := os.Getenv(crashRunsURL); url != "" {
		runUntilKilled(url)
	}
	if url := os.Getenv(crashDefinitionsURL); url != "" {
		defineUntilKilled(url)
	}
	os.Exit(m.Run())
}

// writeUntilKilled enqueues tasks from eight goroutines and prints the acknowledged tasks on
// stdout.
func writeUntilKilled(url string) {
	db, err := store.Open(ctx, store.Options{URL: url})
	if err != nil {
		panic(err)
	}
	n, err := db.Node(ctx, "n-one")
	if err != nil {
		panic(err)
	}
	var out sync.Mutex
	for side := range 8 {
		go func() {
			for i := 0; ; i++ {
				k := broker.Task{
					ID: fmt.Sprintf("t-%d-%d-%08d", os.Getpid(), side, i), NodeID: n.ID, NodeEpoch: n.Epoch, Type: "node.drain", Version: 1, Lane: taskcatalog.LaneConcurrent,
					Params: []byte(`{}`), Envelope: []byte(fmt.Sprintf("envelope %d %d", side, i)), IssuedAt: time.Now(), NotAfter: time.Now().Add(time.Hour),
				}
				if _, _, err := db.InsertTask(ctx, admin, k); err != nil {
					panic(err)
				}
				out.Lock()
				fmt.Println(k.ID)
				out.Unlock()
			}
		}()
	}
	select {}
}

// After kill -9 every acknowledged task is present with its audit row, and every task that is
// present is whole, acknowledged or not.
func TestNothingAcknowledgedIsLostToAKill(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			url := storetest.URL(t, engine)
			db := storetest.Reopen(t, url, nil)
			newMember(t, db, "one")
			ok(t, db.Close())
			acknowledged := map[string]bool{}
			for round := range 3 {
				for _, id := range killAfter(t, crashURL+"="+url, 60+40*round) {
					acknowledged[id] = true
				}
				checkWhole(t, url, acknowledged)
			}
		})
	}
}

// killAfter kills a writer after this number of acknowledgements.
func killAfter(t *testing.T, environment string, acknowledgements int) (ids []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), environment)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		ids = append(ids, lines.Text())
		if len(ids) == acknowledgements {
			ok(t, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil || len(ids) < acknowledgements {
		t.Fatalf("the writer ended by itself after %d: %v", len(ids), err)
	}
	// The last line may have been cut off by the kill.
	return ids[:len(ids)-1]
}

func checkWhole(t *testing.T, url string, acknowledged map[string]bool) {
	t.Helper()
	db := storetest.Reopen(t, url, nil)
	defer db.Close() //nolint:errcheck // it only looked
	var all []broker.Task
	for f := (store.TaskFilter{Limit: 1000}); ; {
		page, next, err := db.ListTasks(ctx, f)
		ok(t, err)
		all = append(all, page...)
		if next == "" {
			break
		}
		f.After = next
	}
	rows := must(db.ListAudit(ctx, store.AuditFilter{Action: "task.enqueue", Limit: 100000}))(t)
	if len(rows) != len(all) {
		t.Fatalf("%d tasks and %d audit rows", len(all), len(rows))
	}
	there := map[string]bool{}
	for _, k := range all {
		there[k.ID] = true
		if whole := must(db.Task(ctx, k.ID))(t); !strings.HasPrefix(string(whole.Envelope), "envelope ") {
			t.Fatalf("task %s has no envelope", k.ID)
		}
	}
	for id := range acknowledged {
		if !there[id] {
			t.Fatalf("task %s was acknowledged and is gone", id)
		}
	}
}
