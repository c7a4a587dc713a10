package plan

import (
	"bytes"
	"maps"
	"slices"
	"strconv"

	"github.com/hostler/hostler/agent/redact"
	"github.com/hostler/hostler/taskcatalog"
)

// checkSecrets is the check of the report that says how many secrets were wiped.
const checkSecrets = "secrets"

// wipe overwrites the secrets of the task, reports each, and returns how many there were.
func (o *Operation) wipe(report *taskcatalog.Report) int {
	for _, step := range slices.Sorted(maps.Keys(o.secrets)) {
		o.secrets[step].Wipe()
		report.Dispose(taskcatalog.Disposition{
			Check: checkSecrets, Path: "steps." + step, Action: taskcatalog.ActionRemoved, Reason: "overwritten in the agent's memory",
		})
	}
	n := len(o.secrets)
	report.Checks = append(report.Checks, taskcatalog.Check{
		Name: checkSecrets, Made: true, NotApplicable: n == 0, Reason: strconv.Itoa(n) + " wiped",
	})
	return n
}

// fragments are the parts of a secret that are secrets themselves: the values of its JSON, or the
// parameters of its URL.
func fragments(secret []byte) [][]byte {
	all := [][]byte{secret}
	for _, part := range bytes.FieldsFunc(secret, func(r rune) bool { return r <= ' ' || bytes.ContainsRune([]byte(`"{}[],:&=?`), r) }) {
		if len(part) >= minFragment {
			all = append(all, part)
		}
	}
	slices.SortFunc(all, func(a, b []byte) int { return len(b) - len(a) })
	return all
}

// minFragment is the length from which a part of a secret is looked for.
const minFragment = 8

// leaks reports whether data holds a secret of the task, or a part of one.
func (o *Operation) leaks(data []byte) (found bool) {
	for _, s := range o.secrets {
		_ = s.Use(func(value []byte) error {
			for _, part := range fragments(value) {
				found = found || len(part) > 0 && bytes.Contains(data, part)
			}
			return nil
		})
	}
	return found
}

// hide takes the secrets of the task out of a message. A step that has a secret as an argument also
// loses what looks like one: its code may have quoted a part.
func (o *Operation) hide(s *taskcatalog.PlannedStep, message string) string {
	text := []byte(message)
	for _, secret := range o.secrets {
		_ = secret.Use(func(value []byte) error {
			for _, part := range fragments(value) {
				if len(part) > 0 {
					text = bytes.ReplaceAll(text, part, []byte("[redacted]"))
				}
			}
			return nil
		})
	}
	for _, v := range s.With {
		if _, ok := o.secretOf(v); ok {
			redacted, _ := redact.New(nil, nil).Text(string(text))
			return redacted
		}
	}
	return string(text)
}
