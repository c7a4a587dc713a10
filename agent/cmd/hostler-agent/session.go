package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/hostler/hostler/agent"
	"github.com/hostler/hostler/agent/journal"
	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/agent/systemd"
	"github.com/hostler/hostler/agent/terminal/handover"
	"github.com/hostler/hostler/agent/terminal/logins"
	"github.com/hostler/hostler/agent/terminal/process"
	"github.com/hostler/hostler/agent/terminal/unit"
	"github.com/hostler/hostler/taskcatalog"
)

// codeNotRoot is the code of commands allowed only to root.
const codeNotRoot taskcatalog.Code = "not_root"

// terminals are the sessions started by this program: each runs this version's own file, and is
// ended by whichever version is installed then. Without systemd it is nil.
func terminals(config *agent.Config, configFile, lib, executable string, underSystemd bool) *unit.Sessions {
	if !underSystemd {
		return nil
	}
	after := executable
	if selfupdate.SlotOf(lib, executable) != "" {
		after = path.Join(lib, "current", "hostler-agent")
	}
	if file, err := filepath.Abs(configFile); err == nil { // systemd starts it in another directory
		configFile = file
	}
	if configFile == agent.DefaultConfigFile { // an older version, which may run at the end, accepts only this file
		configFile = ""
	}
	return &unit.Sessions{
		Systemd: systemd.Bus{}, Machine: config.Machine, Program: executable, After: after, Config: configFile, StateDir: config.StateDir,
		Ask: handover.Ask,
	}
}

// newSession is the process of a terminal session: see package process. Only the session's unit
// runs it; the agent hands over all its other inputs.
func newSession() *cobra.Command {
	return &cobra.Command{
		Use: "session ID", Hidden: true, Args: sessionArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := process.HideMemory(); err != nil {
				return err
			}
			if err := onlyRoot(cmd); err != nil {
				return err
			}
			// Each stop of the unit also sends SIGHUP. The signal must not be ignored, because
			// programs started from here would inherit this.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			log := journal.New(os.Stderr, zap.InfoLevel)
			return process.Run(ctx, process.Config{
				OwnScore:  "/proc/self/oom_score_adj",
				SessionID: args[0], Dir: unit.Dir(args[0]), Root: "/", Members: process.ReadMember, Logins: logins.Here(), Log: log,
				Notify: func(state string) {
					if _, err := daemon.SdNotify(false, state); err != nil {
						log.Warn("cannot notify systemd", zap.Error(err))
					}
				},
			})
		},
	}
}

// newSessionEnded is the program that runs after a session's process, however the process ended.
func newSessionEnded() *cobra.Command {
	var configFile string
	cmd := &cobra.Command{
		Use: "session-ended ID", Hidden: true, Args: sessionArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onlyRoot(cmd); err != nil {
				return err
			}
			log := journal.New(os.Stderr, zap.InfoLevel).With(zap.String("session", args[0]))
			book := logins.Here()
			login, was, err := process.End(unit.Dir(args[0]), book)
			if was {
				log.Info("a user is logged out", zap.String("user", login.User), zap.String("tty", login.TTY),
					zap.Time("at", book.Now().UTC().Truncate(time.Second)))
			}
			return errors.Join(err, ifKilled(log, func(how string) error { return reportGone(cmd.Context(), configFile, args[0], how) }))
		},
	}
	cmd.Flags().StringVar(&configFile, "config", agent.DefaultConfigFile, "the agent's config `FILE`")
	return cmd
}

// ifKilled calls tell with systemd's result, if a session's process did not end by itself.
func ifKilled(log *zap.Logger, tell func(how string) error) error {
	result := os.Getenv("SERVICE_RESULT")
	if result == "success" || result == "" {
		return nil
	}
	log.Warn("the process of a terminal session did not end by itself", zap.String("result", taskcatalog.Clean(result, 40)),
		zap.String("status", taskcatalog.Clean(os.Getenv("EXIT_STATUS"), 40)))
	return tell(result)
}

// reportTimeout limits the report to the broker: the end of the session's unit waits for it, and a
// broker that misses the report finds out by itself.
const reportTimeout = 5 * time.Second

func reportGone(ctx context.Context, configFile, id, how string) error {
	ctx, done := context.WithTimeout(ctx, reportTimeout)
	defer done()
	file, err := agent.LoadFile(configFile)
	if err == nil {
		err = agent.ReportTerminalGone(ctx, agent.Config{File: file, Version: version, Now: time.Now}, id, how)
	}
	if err != nil {
		return fmt.Errorf("cannot report to the broker that terminal session %s has ended: %w", id, err)
	}
	return nil
}

func sessionArg(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || unit.CheckID(args[0]) != nil {
		return usage("%s takes one argument, a terminal session (only a session's unit runs it)", cmd.CommandPath())
	}
	return nil
}

func onlyRoot(cmd *cobra.Command) error {
	if os.Geteuid() != 0 {
		return taskcatalog.Errorf(codeNotRoot, "cannot run %s: only root may", cmd.CommandPath())
	}
	return nil
}
