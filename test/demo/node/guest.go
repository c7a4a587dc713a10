package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hostler/hostler/test/lab"
)

// redirect replaces the task type in a signed envelope and leaves the signature unchanged.
func redirect(envelope []byte) ([]byte, error) {
	var env map[string]any
	if err := json.Unmarshal(envelope, &env); err != nil {
		return nil, err
	}
	payload, err := base64.StdEncoding.DecodeString(env["payload"].(string))
	if err != nil {
		return nil, err
	}
	changed := strings.Replace(string(payload), "node.heartbeat_check", "node.uninstall", 1)
	if changed == string(payload) {
		return nil, errors.New("the payload does not name its type")
	}
	env["payload"] = base64.StdEncoding.EncodeToString([]byte(changed))
	return json.Marshal(env)
}

// trust holds the fields of hostler trust show that the demo reads.
type trust struct {
	CASHA256 string `json:"ca_sha256"`
}

func (d *demo) trust(ctx context.Context) (trust, error) {
	var t trust
	return t, d.Lab.JSON(ctx, &t, "trust", "show")
}

// refusal returns the output of a refused command.
func refusal(err error) (string, error) {
	var exit *lab.ExitError
	if errors.As(err, &exit) {
		return fmt.Sprintf("%s (exit %d)", strings.TrimSpace(exit.Stderr), exit.Code), nil
	}
	if err == nil {
		err = errors.New("it was not refused")
	}
	return "", err
}
