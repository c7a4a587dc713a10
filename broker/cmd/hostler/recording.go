package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

func recordingCommand(a *app) *cobra.Command {
	return noun("recording", "list, play and check recordings of terminal sessions", "  hostler recording play ts-7k2m4q6s",
		recordingListCommand(a), recordingPlayCommand(a), recordingExportCommand(a), recordingVerifyCommand(a))
}

func recordingListCommand(a *app) *cobra.Command {
	var f client.RecordingFilter
	var from, to string
	c := &cobra.Command{
		Use: "list", Short: "list recordings, newest first", Args: exactly(),
		Example: "  hostler recording list --node gpu-07 --from 24h\n  hostler recording list --opened-by alice -o json",
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if f.Limit < 0 {
				return usage("--limit takes 0 (all) or a positive number")
			}
			if f.From, err = a.timeFlag("from", from); err != nil {
				return err
			}
			if f.To, err = a.timeFlag("to", to); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.Recordings(c.Context(), f)
			if err != nil {
				return err
			}
			ids, rows := []string{}, [][]string{}
			for _, r := range l.Items {
				is, lasted := "not ended", ""
				switch {
				case !r.DroppedAt.IsZero():
					is = "dropped"
				case r.Ended:
					is = "ended"
				}
				if !r.EndedAt.IsZero() {
					lasted = render.Span(r.EndedAt.Sub(r.BeganAt))
				}
				ids = append(ids, r.SessionID)
				rows = append(rows, []string{
					r.SessionID, r.Hostname, r.Username, r.OpenedBy, render.Time(r.BeganAt), lasted,
					strconv.FormatUint(r.Bytes, 10), is, r.EndCode, r.Reason,
				})
			}
			return a.show(l, ids, func(p *render.Page) {
				p.Table([]render.Column{
					render.ID("SESSION"), render.Keep("NODE"), render.Main("USER"), render.More("OPENED BY"),
					render.More("BEGAN"), render.Aside("LASTED"), render.Aside("BYTES"), render.Keep("IS"), render.More("END"),
					render.Keep("REASON"),
				}, rows)
				if len(rows) == 0 {
					a.note("no recordings")
				}
			})
		},
	}
	c.Flags().StringVar(&f.Node, "node", "", "only recordings of this `NODE`")
	c.Flags().StringVar(&f.OpenedBy, "opened-by", "", "only sessions of this operator")
	c.Flags().StringVar(&from, "from", "", "begun at this `TIME` or later: 2006-01-02, 2006-01-02T15:04:05Z, or an age such as 24h")
	c.Flags().StringVar(&to, "to", "", "begun before this `TIME`")
	c.Flags().IntVar(&f.Limit, "limit", 100, "maximum number of recordings; 0: all")
	return c
}

func recordingVerifyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "verify ID", Short: "check a recording against its hashes and the audit log", Args: exactly("ID"),
		Long: `Check all blocks of a recording against their hashes and against the audit log.

Exit status: 0 complete and unchanged; 1 changed, or a part is missing, with the
block before it; 3 unchanged, but without an end, because the session goes on or was
cut there (incomplete), or without output that never reached the broker, with the
block in which it is missing (with gaps).`,
		Example: "  hostler recording verify ts-7k2m4q6s",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r, err := remote.VerifyRecording(c.Context(), args[0])
			if err != nil {
				return err
			}
			verdict := "incomplete"
			switch {
			case !r.Intact:
				verdict = "not as it was written"
			case r.Complete:
				verdict = "complete"
			case r.Ended:
				verdict = "with gaps"
			}
			lost, told := "", "nothing"
			if r.Lost > 0 {
				lost = strconv.FormatUint(r.Lost, 10) + " bytes, at the places that it says"
			}
			if h := r.Head; h != nil {
				told = fmt.Sprintf("%d blocks, %d bytes, %s (row %d, %s)", h.Blocks, h.Bytes, h.Hash, h.AuditID, render.Time(h.At))
			}
			if err := a.show(r, []string{verdict}, func(p *render.Page) {
				p.Fields("recording", r.SessionID, "is", verdict, "blocks", strconv.FormatInt(r.Blocks, 10),
					"bytes of output", strconv.FormatUint(r.Bytes, 10),
					"until", moment(a, r.Until), "of these lost", lost, "what is wrong", r.What, "the audit log was told", told)
			}); err != nil {
				return err
			}
			switch {
			case !r.Intact:
				return broker.Errorf(broker.Internal, "recording_broken",
					"the recording of session %s was changed, or a part of it is missing: %s (leave the database unchanged)", r.SessionID,
					r.What)
			case r.Ended && !r.Complete:
				return broker.Errorf(broker.Refused, "recording_gaps",
					"the recording of session %s has gaps: %s (the rest is unchanged; hostler recording play shows the gaps)", r.SessionID,
					r.What)
			case !r.Complete:
				return broker.Errorf(broker.Refused, "recording_incomplete", "the recording of session %s is not complete: %s", r.SessionID,
					r.What)
			}
			return nil
		},
	}
}

// sessionID matches session ids that are safe as file names.
var sessionID = lazyregexp.New(`^ts-[a-z0-9]{1,40}$`)

func recordingExportCommand(a *app) *cobra.Command {
	var out string
	var force bool
	c := &cobra.Command{
		Use: "export ID", Short: "export a recording as an asciicast v2 file", Args: exactly("ID"),
		Long: `Export a recording as an asciicast v2 file, exactly as it was recorded. hostler
recording play leaves out output that acts on your terminal; other players do not.`,
		Example: "  hostler recording export ts-7k2m4q6s --out session.cast",
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				if !sessionID.MatchString(args[0]) {
					return usage("%q is not the ID of a session (see hostler recording list)", args[0])
				}
				out = args[0] + ".cast"
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			n, err := exportRecording(c.Context(), remote, args[0], out, force)
			if err != nil {
				return err
			}
			a.note("%s: %d bytes", out, n)
			return nil
		},
	}
	c.Flags().StringVar(&out, "out", "", "write to `FILE` (default: ID.cast)")
	c.Flags().BoolVar(&force, "force", false, "replace an existing file")
	return c
}

// exportRecording writes the file whole or not at all.
func exportRecording(ctx context.Context, remote *client.Client, id, path string, force bool) (n int64, err error) {
	if _, err := os.Lstat(path); err == nil && !force {
		return 0, exists(path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return 0, unwritable(path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	err = remote.CopyRecording(ctx, id, f)
	if err == nil {
		n, err = f.Seek(0, io.SeekCurrent)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		if _, ours := errors.AsType[*broker.Error](err); ours || ctx.Err() != nil {
			return 0, err
		}
		return 0, unwritable(path, err)
	}
	if force {
		err = os.Rename(f.Name(), path)
	} else { // fails if a file has appeared meanwhile
		err = os.Link(f.Name(), path)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return 0, exists(path)
	case err != nil:
		return 0, unwritable(path, err)
	}
	return n, nil
}

func exists(path string) error {
	return broker.Errorf(broker.Refused, "file_exists", "cannot write %s: the file exists (use --force to replace it)", path)
}

func unwritable(path string, err error) error {
	return broker.Errorf(broker.Internal, "output_failed", "cannot write %s: %v", path, err)
}
