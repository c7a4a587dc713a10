package play

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/hostler/hostler/test/lab"
)

// Turnover holds the fields of a run's JSON that the scenes read.
type Turnover struct {
	ID          string   `json:"id"`
	Status      string   `json:"status"`
	Stage       string   `json:"current_stage"`
	Class       string   `json:"failure_class"`
	Code        string   `json:"error_code"`
	Next        string   `json:"recommended_next_action"`
	Certificate string   `json:"certificate_id"`
	MeetsPolicy bool     `json:"meets_policy"`
	Warnings    []string `json:"warnings"`
}

// LastTurnover returns a node's newest turnover.
func (p *Play) LastTurnover(ctx context.Context, node string) (t Turnover, err error) {
	var list struct {
		Items []Turnover `json:"items"`
	}
	if err := p.Lab.JSON(ctx, &list, "decommission", "list", "--node", node); err != nil {
		return t, err
	}
	if len(list.Items) == 0 {
		return t, fmt.Errorf("node %s has had no turnover", node)
	}
	return list.Items[0], nil
}

// Certificate holds the fields of a verified certificate that the scenes read.
type Certificate struct {
	Environment string `json:"environment"`
	Node        struct {
		ID    string `json:"node_id"`
		Epoch int64  `json:"node_epoch"`
	} `json:"node"`
	Devices []struct {
		Kind         string `json:"kind"`
		Serial       string `json:"serial"`
		Method       string `json:"method"`
		Verification string `json:"verification"`
		Verdict      string `json:"verdict"`
	} `json:"devices"`
	Verdict struct {
		MeetsPolicy bool `json:"meets_policy"`
	} `json:"verdict"`
}

// Verify gets a certificate and the trust file, and verifies the certificate offline: the command's
// configuration leads to no broker.
func (p *Play) Verify(ctx context.Context, id string) (c Certificate, file string, err error) {
	file = p.Lab.Path(id + ".json")
	trust, err := p.TrustFile(ctx)
	if err != nil {
		return c, "", err
	}
	if err := p.Hostler(ctx, 3, "certificate", "get", id, "--out", file); err != nil {
		return c, "", err
	}
	args := []string{"certificate", "verify", file, "--trust", trust}
	p.Typed(Typed(args))
	text, err := p.Lab.HostlerOffline(ctx, args...)
	p.Printed(text, 60)
	if err != nil {
		return c, "", err
	}
	raw, err := p.Lab.HostlerOffline(ctx, append(args, "-o", "json")...)
	if err != nil {
		return c, "", err
	}
	var report struct {
		Clean *Certificate `json:"certificate"`
	}
	if err := json.Unmarshal([]byte(raw), &report); err != nil || report.Clean == nil {
		return c, "", fmt.Errorf("cannot read the report: %w: %s", err, raw)
	}
	return *report.Clean, file, nil
}

// TrustFile writes the output of hostler trust show to a file, as a verifier has received it
// earlier.
func (p *Play) TrustFile(ctx context.Context) (string, error) {
	file := p.Lab.Path("trust.json")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	p.Typed("hostler trust show -o json > " + file)
	text, err := p.Lab.Hostler(ctx, "trust", "show", "-o", "json")
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// Flip changes one bit in the middle of a certificate's file; the verification must fail.
func (p *Play) Flip(ctx context.Context, file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed := bytes.Clone(raw)
	changed[len(changed)/2] ^= 1
	to := file + ".changed"
	if err := os.WriteFile(to, changed, 0o600); err != nil {
		return err
	}
	args := []string{"certificate", "verify", to, "--trust", p.Lab.Path("trust.json")}
	p.Say("One bit in the middle of the file is changed:")
	p.Typed(Typed(args))
	said, err := p.Lab.HostlerOffline(ctx, args...)
	exit, is := errors.AsType[*lab.ExitError](err)
	if !is || exit.Code != 1 || said != "" {
		return fmt.Errorf("a changed certificate was believed: %w: %s", err, said)
	}
	p.Printed(exit.Stderr, 4)
	return nil
}
