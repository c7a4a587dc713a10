package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// pollEvery is the interval of a polled condition. It decides only how soon a wait notices, never
// whether.
const pollEvery = 200 * time.Millisecond

// poll looks until look returns nil, or ctx ends; then the error says what was
// waited for and what the last look saw.
func poll(ctx context.Context, what string, look func() error) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := look()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot wait any longer for %s: %w: %w", what, context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// wait is poll for a guest: it also ends when the guest does.
func (g *Guest) wait(ctx context.Context, what string, look func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(g.alive, func() { cancel(context.Cause(g.alive)) })
	defer stop()
	err := poll(ctx, what, look)
	if err != nil {
		return fmt.Errorf("guest %s: %w\n%s", g.name, err, g.consoleTail())
	}
	return nil
}

// WaitSSH waits until a command runs in the guest.
func (g *Guest) WaitSSH(ctx context.Context) error {
	return g.wait(ctx, "ssh", func() error {
		_, err := g.Run(ctx, "true")
		return err
	})
}

// WaitConsole waits for a line on the serial console since the guest started,
// and returns it.
func (g *Guest) WaitConsole(ctx context.Context, line *regexp.Regexp) (found string, err error) {
	err = g.wait(ctx, fmt.Sprintf("%q on the console", line), func() error {
		text, err := g.Console()
		if err != nil {
			return err
		}
		for l := range strings.Lines(text) {
			if l = strings.TrimRight(l, "\r\n"); line.MatchString(l) {
				found = l
				return nil
			}
		}
		return errors.New("no such line")
	})
	return found, err
}

// awaitResult waits in the guest, where a look is cheap: a session for each look takes
// as much of an emulated CPU as the boot leaves it.
const awaitResult = "until [ -s /run/cloud-init/result.json ]; do sleep 0.5; done; cat /run/cloud-init/result.json"

// WaitCloudInit waits until cloud-init has ended, and returns its errors as one.
func (g *Guest) WaitCloudInit(ctx context.Context) error {
	var result struct {
		V1 struct {
			Errors []string `json:"errors"`
		} `json:"v1"`
	}
	err := g.wait(ctx, "cloud-init", func() error {
		r, err := g.Run(ctx, "sh", "-c", awaitResult)
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(r.Stdout), &result)
	})
	if err == nil && len(result.V1.Errors) > 0 {
		err = fmt.Errorf("guest %s: cloud-init: %s", g.name, strings.Join(result.V1.Errors, "; "))
	}
	return err
}

// WaitFor waits until a command ends well in the guest.
func (g *Guest) WaitFor(ctx context.Context, argv ...string) error {
	return g.wait(ctx, strings.Join(argv, " "), func() error {
		_, err := g.Run(ctx, argv...)
		return err
	})
}

// WaitUnit waits until systemd says that the unit is in the state: active,
// inactive, failed.
func (g *Guest) WaitUnit(ctx context.Context, unit, state string) error {
	return g.wait(ctx, unit+" "+state, func() error {
		// is-active exits with an error for every other state; the word is the answer.
		r, err := g.Run(ctx, "systemctl", "is-active", unit)
		if now := strings.TrimSpace(r.Stdout); now == state {
			return nil
		} else if now != "" {
			return fmt.Errorf("%s is %s", unit, now)
		}
		return err
	})
}

// WaitBooted waits until systemd has nothing left to start. A degraded system
// is an error that names the failed units.
func (g *Guest) WaitBooted(ctx context.Context) error {
	err := g.wait(ctx, "the end of the boot", func() error {
		r, err := g.Run(ctx, "systemctl", "is-system-running", "--wait")
		switch now := strings.TrimSpace(r.Stdout); now {
		case "running", "degraded":
			return nil
		case "":
			return err
		default:
			return fmt.Errorf("the system is %s", now)
		}
	})
	if err != nil {
		return err
	}
	r, err := g.Run(ctx, "systemctl", "list-units", "--failed", "--plain", "--no-legend")
	if err == nil && strings.TrimSpace(r.Stdout) != "" {
		err = fmt.Errorf("guest %s: failed units: %s", g.name, strings.TrimSpace(r.Stdout))
	}
	return err
}

// Console returns what the guest wrote on its serial console.
func (g *Guest) Console() (string, error) {
	data, err := os.ReadFile(g.path("console.log"))
	return string(data), err
}

func (g *Guest) consoleTail() string {
	text, err := g.Console()
	if err != nil {
		return ""
	}
	lines := strings.Split(text, "\n")
	return "console: " + strings.Join(lines[max(0, len(lines)-15):], "\nconsole: ")
}
