package store_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

const (
	crashRunsURL    = "HOSTLER_STORE_CRASH_RUNS_URL"
	crashRunsDir    = "HOSTLER_STORE_CRASH_RUNS_DIR"
	crashRunsOffset = "HOSTLER_STORE_CRASH_RUNS_OFFSET" // of the clock, so that a lease ends at once
	crashRuns       = 12
)

// crashChain creates a file in each stage, if the stage has none yet. Each file has a unique name,
// so that a second file is noticed. At is called before and after each file.
func crashChain(dir string, at func(key string)) chain.Chain[chaintest.ScriptState] {
	c := chain.Chain[chaintest.ScriptState]{Kind: chaintest.ScriptKind}
	for _, name := range []string{"a", "b", "c"} {
		there := func(id string) ([]string, error) { return filepath.Glob(filepath.Join(dir, id+"-"+name+"-*")) }
		c.Stages = append(c.Stages, chain.Stage[chaintest.ScriptState]{
			Name: name,
			Done: func(_ context.Context, r *chain.Run[chaintest.ScriptState]) (bool, error) {
				r.Apply(broker.AuditEntry{Actor: "system", Action: "test.effect", Subject: r.Key()})
				files, err := there(r.ID)
				return len(files) > 0, err
			},
			Do: func(_ context.Context, r *chain.Run[chaintest.ScriptState]) error {
				at(r.Key())
				f, err := os.CreateTemp(dir, r.ID+"-"+name+"-*")
				if err != nil {
					return err
				}
				at(r.Key())
				return f.Close()
			},
		})
	}
	return c
}

// runUntilKilled is a broker that runs chains, prints its position at each stage, and goes on when it
// reads a byte. Left to itself it would end all runs before a slow machine kills it.
func runUntilKilled(url string) {
	offset, err := time.ParseDuration(os.Getenv(crashRunsOffset))
	if err != nil {
		panic(err)
	}
	db, err := store.Open(ctx, store.Options{URL: url, Now: func() time.Time { return time.Now().Add(offset) }})
	if err != nil {
		panic(err)
	}
	at := func(key string) {
		fmt.Println(key)
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
	e, err := chain.New(db, chaintest.ScriptClasses, chain.Options{Workers: 4}, crashChain(os.Getenv(crashRunsDir), at))
	if err != nil {
		panic(err)
	}
	e.Run(ctx)
}

// Brokers that run chains are killed, one after the other, at any point; each run comes to its end,
// with exactly one of each effect.
func TestRunsOutliveTheirBrokers(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			url, dir := storetest.URL(t, engine), t.TempDir()
			db := storetest.Reopen(t, url, nil)
			e, err := chain.New(db, chaintest.ScriptClasses, chain.Options{}, crashChain(dir, func(string) {}))
			ok(t, err)
			for i := range crashRuns {
				_, err := e.Start(ctx, chain.Start{ID: fmt.Sprintf("r%02d", i), Kind: chaintest.ScriptKind, Site: "dc1", State: chaintest.ScriptState{}})
				ok(t, err)
			}
			ok(t, db.Close())
			for i, lines := range []int{1, 4, 9, 20} {
				killRunsAfter(t, url, dir, time.Duration(i)*time.Hour, lines)
			}
			finishRuns(t, url, dir)
			checkRuns(t, url, dir)
		})
	}
}

func killRunsAfter(t *testing.T, url, dir string, offset time.Duration, lines int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashRunsURL+"="+url, crashRunsDir+"="+dir, crashRunsOffset+"="+offset.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	ok(t, err)
	in, err := cmd.StdinPipe()
	ok(t, err)
	ok(t, cmd.Start())
	scan := bufio.NewScanner(out)
	for range lines {
		if !scan.Scan() {
			t.Fatal("the broker ended by itself")
		}
		_, err := in.Write([]byte{'\n'})
		ok(t, err)
	}
	ok(t, cmd.Process.Kill())
	for scan.Scan() { // its output before the kill
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the broker ended by itself")
	}
}

func finishRuns(t *testing.T, url, dir string) {
	t.Helper()
	db := storetest.Reopen(t, url, func() time.Time { return time.Now().Add(24 * time.Hour) })
	e, err := chain.New(db, chaintest.ScriptClasses, chain.Options{}, crashChain(dir, func(string) {}))
	ok(t, err)
	for worked := true; worked; {
		worked, err = e.Step(ctx)
		ok(t, err)
	}
}

func checkRuns(t *testing.T, url, dir string) {
	t.Helper()
	db := storetest.Reopen(t, url, nil)
	effects := map[string]int{}
	for _, e := range must(db.ListAudit(ctx, store.AuditFilter{Action: "test.effect", Limit: 1000}))(t) {
		effects[e.Subject]++
	}
	for i := range crashRuns {
		id := fmt.Sprintf("r%02d", i)
		story := strings.ReplaceAll(chaintest.Story(must(db.Events(ctx, id))(t)), "skipped", "succeeded")
		if r := must(db.Run(ctx, id))(t); r.Status != chain.Completed || story != "a:succeeded b:succeeded c:succeeded" {
			t.Errorf("%s is %s: %s", id, r.Status, story)
		}
		for _, stage := range []string{"a", "b", "c"} {
			files, err := filepath.Glob(filepath.Join(dir, id+"-"+stage+"-*"))
			if n := effects[id+"/"+stage+"/1"]; err != nil || len(files) != 1 || n != 1 {
				t.Errorf("%s of %s: files %v, %d effects, %v", stage, id, files, n, err)
			}
		}
	}
	messages := map[string]int{}
	for _, kind := range must(store.OutboxTypes(ctx, db))(t) {
		messages[kind]++
	}
	if messages[chaintest.ScriptKind+".started"] != crashRuns || messages[chaintest.ScriptKind+".completed"] != crashRuns {
		t.Errorf("messages %v", messages)
	}
}
