package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/download"
	"github.com/hostler/hostler/taskcatalog"
)

// CodeUnhealthy is the code of a check that ran, and found what is not well.
const CodeUnhealthy taskcatalog.Code = "unhealthy"

// The bounds of an answer to a check.
const (
	healthTime  = 30 * time.Second
	healthBytes = 64 << 10
)

// healthCheck is one way to look: whether its target has the form, and the look itself.
type healthCheck struct {
	form func(target string) error
	look func(ctx context.Context, s *Step, target string) (message string, err error)
}

// healthChecks is the table of the values of the argument check.
var healthChecks = map[string]healthCheck{
	"tcp":  {isAddress, portAccepts},
	"http": {isURL, urlAnswers},
	"unit": {isUnit, unitIsActive},
	"file": {isPath, fileIsThere},
}

// checkHealthTarget judges the target of a planned check.
func checkHealthTarget(s *taskcatalog.PlannedStep) error {
	check, _ := s.With["check"].Literal.(string)
	target, _ := s.With["target"].Literal.(string)
	return healthChecks[check].form(target)
}

// health looks once. The attempts of the step are the patience: a service may need time to come up.
func health(ctx context.Context, s *Step) (Proof, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	target := s.Args.Text("target")
	message, err := healthChecks[s.Args.Text("check")].look(ctx, s, target)
	if refused, is := errors.AsType[*taskcatalog.Error](err); is {
		return Proof{}, refused
	}
	if err != nil {
		return Proof{}, taskcatalog.Errorf(CodeUnhealthy, "%s: %v", target, err)
	}
	return Proof{Message: target + " " + message}, nil
}

func isAddress(target string) error {
	host, port, err := net.SplitHostPort(target)
	if err != nil || host == "" {
		return errors.New("the target of a tcp check is HOST:PORT")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errors.New("the target of a tcp check has a port from 1 to 65535")
	}
	return nil
}

// dialer checks the address of each connection, after DNS: the agent has rights that a metadata service
// would give away.
var dialer = &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return download.CheckService(address) }}

// unanswered describes a failed connection without a text of the other side, or of the site's names.
func unanswered(err error) error {
	if refused, is := errors.AsType[*taskcatalog.Error](err); is {
		return refused
	}
	return errors.New("it " + download.Cause(err))
}

func portAccepts(ctx context.Context, _ *Step, target string) (string, error) {
	c, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return "", unanswered(err)
	}
	return "accepts", c.Close()
}

func isURL(target string) error {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return errors.New("the target of an http check is a URL with http or https, a host, and no user")
	}
	return nil
}

// urlAnswers gets a URL. A redirect is followed nowhere, and no proxy of the environment is asked.
func urlAnswers(ctx context.Context, _ *Step, target string) (string, error) {
	client := &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: healthBytes},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(r)
	if err != nil {
		return "", unanswered(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return "", fmt.Errorf("it answers %d", answer.StatusCode)
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, healthBytes)); err != nil {
		return "", unanswered(err)
	}
	return fmt.Sprintf("answers %d", answer.StatusCode), nil
}

func isUnit(target string) error {
	if !strings.HasSuffix(target, ".service") && !strings.HasSuffix(target, ".socket") && !strings.HasSuffix(target, ".timer") ||
		strings.ContainsAny(target, "/ ") {
		return errors.New("the target of a unit check is the full name of a service, socket or timer")
	}
	return nil
}

func unitIsActive(ctx context.Context, s *Step, target string) (string, error) {
	state, err := s.Host.Systemd.State(ctx, target)
	if err == nil && state.Active != "active" {
		err = fmt.Errorf("it is %s", state.Active)
	}
	return "is active", err
}

func isPath(target string) error {
	if !path.IsAbs(target) || path.Clean(target) != target {
		return errors.New("the target of a file check must be an absolute path that names no parent directory")
	}
	return nil
}

// fileIsThere looks for a regular file. No part of the path may be a link.
func fileIsThere(_ context.Context, s *Step, target string) (string, error) {
	st, err := s.Host.Machine.Lstat(target)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errors.New("it is no regular file")
	}
	return "is there", err
}
