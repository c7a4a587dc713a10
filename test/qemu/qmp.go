package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// monitor speaks QMP, QEMU's control protocol: one JSON object a line, one answer a command, events
// in between.
type monitor struct {
	turn    chan struct{} // holds an element while a command runs
	conn    net.Conn
	answers *json.Decoder
}

func dialMonitor(ctx context.Context, socket string) (*monitor, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	m := &monitor{turn: make(chan struct{}, 1), conn: conn, answers: json.NewDecoder(conn)}
	// The greeting comes first, unasked.
	var greeting struct{ QMP json.RawMessage }
	if err := m.deadline(ctx, func() error { return m.answers.Decode(&greeting) }); err != nil {
		conn.Close()
		return nil, fmt.Errorf("cannot read QMP's greeting: %w", err)
	}
	if err := m.execute(ctx, "qmp_capabilities", nil, nil); err != nil {
		conn.Close()
		return nil, err
	}
	return m, nil
}

// execute runs a command and decodes the result into out, unless out is nil.
func (m *monitor) execute(ctx context.Context, command string, arguments, out any) error {
	select { // a QEMU that hangs never ends the previous command
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return fmt.Errorf("QMP %s: the command before it has not ended: %w", command, context.Cause(ctx))
	}
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	err := m.deadline(ctx, func() error {
		if err := json.NewEncoder(m.conn).Encode(request); err != nil {
			return err
		}
		for {
			var answer struct {
				Event  string
				Return json.RawMessage
				Error  *struct{ Desc string }
			}
			if err := m.answers.Decode(&answer); err != nil {
				return err
			}
			switch {
			case answer.Event != "":
				continue
			case answer.Error != nil:
				return errors.New(answer.Error.Desc)
			case out != nil:
				return json.Unmarshal(answer.Return, out)
			}
			return nil
		}
	})
	if err != nil {
		return fmt.Errorf("QMP %s: %w", command, err)
	}
	return nil
}

// human runs a command of the human monitor and returns its output, empty on success.
func (m *monitor) human(ctx context.Context, line string) (string, error) {
	var said string
	err := m.execute(ctx, "human-monitor-command", map[string]string{"command-line": line}, &said)
	return strings.TrimSpace(said), err
}

// deadline runs io so that it ends with ctx. An interrupted connection is closed, so that no
// command reads the answer of another.
func (m *monitor) deadline(ctx context.Context, io func() error) error {
	stop := context.AfterFunc(ctx, func() { m.conn.SetDeadline(time.Unix(1, 0)) })
	err := io()
	if !stop() {
		m.conn.Close()
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}
