package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the attacker with the database in hand

	"github.com/hostler/hostler/test/demo/play"
)

func (d *demo) attacks(ctx context.Context) error {
	for _, a := range []struct {
		who  string
		how  func(context.Context) (string, error)
		want string // the refusal's code
	}{
		{"Somebody who has the database changes a queued task", d.changeQueuedTask, "bad_signature"},
		{"Somebody who found the enrolment token uses it for a key of their own", d.stealToken, "token_used"},
		{"A viewer enqueues a task", d.viewerRunsTask, "role_insufficient"},
		{"An operator asks for a shell", d.askForShell, "unknown_type"},
	} {
		said, err := a.how(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", a.who, err)
		}
		if !strings.Contains(said, a.want) {
			return fmt.Errorf("%s: expected a refusal with %s, got %q", a.who, a.want, said)
		}
		d.Say("%s:", a.who)
		d.Printed(strings.TrimSpace(said), 2)
		d.Saw("refused (%s): %s", a.want, strings.ToLower(a.who[:1])+a.who[1:])
	}
	return nil
}

// changeQueuedTask stops the agent so that a task stays queued, swaps two bytes of the signed
// envelope in the table, and lets the agent fetch the envelope.
func (d *demo) changeQueuedTask(ctx context.Context) (string, error) {
	if _, err := d.InGuest(ctx, "systemctl", "stop", "hostler-agent"); err != nil {
		return "", err
	}
	var t play.Task
	if err := d.Lab.JSON(ctx, &t, "task", "enqueue", node, "node.heartbeat_check"); err != nil {
		return "", err
	}
	db, err := sql.Open("sqlite", filepath.Join(d.Lab.DataDir(), "hostler.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return "", err
	}
	defer db.Close()
	var envelope []byte
	if err := db.QueryRowContext(ctx, "SELECT envelope FROM task_envelopes WHERE task_id = $1", t.ID).Scan(&envelope); err != nil {
		return "", err
	}
	changed, err := redirect(envelope)
	if err != nil {
		return "", err
	}
	if _, err := db.ExecContext(ctx, "UPDATE task_envelopes SET envelope = $1 WHERE task_id = $2", changed, t.ID); err != nil {
		return "", err
	}
	if _, err := d.InGuest(ctx, "systemctl", "start", "hostler-agent"); err != nil {
		return "", err
	}
	err = d.Lab.Wait(ctx, "the refusal", func() error {
		if err := d.Lab.JSON(ctx, &t, "task", "show", t.ID); err != nil {
			return err
		}
		if t.Status != "failed" {
			return fmt.Errorf("the task is %s", t.Status)
		}
		return nil
	})
	return t.Code + ": " + t.Message, err
}

func (d *demo) stealToken(ctx context.Context) (string, error) {
	trust, err := d.trust(ctx)
	if err != nil {
		return "", err
	}
	config := d.Lab.Path("thief.yaml")
	if err := os.WriteFile(config, []byte("state_dir: "+d.Lab.Path("thief")+"\n"), 0o600); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(d.Bin, "hostler-agent"), "enroll", "--config", config,
		"--broker", "https://"+d.Lab.AgentAddress(), "--token-file", "-", "--ca-sha256", trust.CASHA256)
	cmd.Stdin = strings.NewReader(d.token + "\n")
	said, err := cmd.CombinedOutput()
	if err == nil {
		return "", fmt.Errorf("the stolen token worked: %s", said)
	}
	return string(said), nil
}

func (d *demo) viewerRunsTask(ctx context.Context) (string, error) {
	secret, err := d.Lab.CreateToken(ctx, "eve", "viewer")
	if err != nil {
		return "", err
	}
	_, err = d.Lab.HostlerAs(ctx, secret, nil, "task", "enqueue", node, "node.drain", "--yes")
	return refusal(err)
}

func (d *demo) askForShell(ctx context.Context) (string, error) {
	_, err := d.Lab.Hostler(ctx, "task", "enqueue", node, "node.run_command", "-p", "command=id")
	return refusal(err)
}
