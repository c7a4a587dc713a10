package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

const aCommand = `{"id":"make","kind":"command.exec_allowlisted","with":{"command":"tool","args":{"size":5}},"command":{"id":"tool","command":"/usr/bin/tool","base_args":["--make"],"arg_schema":[{"name":"size","type":"integer","minimum":1,"maximum":9,"flag":"--size"}],"user":"root","timeout_seconds":10}}`

// mints is a plan's step that mints a credential.
const mints = `{"id":"key","kind":"credential.mint","with":{"type":"s3_read","scope":"models/x"}}`

// all knows code for each kind of the table.
func all(name string) (steps.Kind, bool) {
	if k, ok := steps.Lookup(name); ok {
		return k, true
	}
	_, ok := taskcatalog.StepKindOf(name)
	return steps.Kind{}, ok
}

func TestAPlanIsJudgedWholeBeforeAnythingRuns(t *testing.T) {
	file := func(old, new string) string { return strings.Replace(aFile, old, new, 1) }
	command := func(old, new string) string { return strings.Replace(aCommand, old, new, 1) }
	pull := `{"id":"pull","kind":"artifact.pull_blob","with":{"from":"s3","source":"models/x/w.bin","digest":"sha256:` + strings.Repeat("a", 64) + `","root":"/var/lib/models","name":"w.bin","credential":{"from":"steps.key"}}}`
	for _, c := range []struct{ name, steps, code string }{
		{"well", aFile + `,` + aCommand + `,` + mints + `,` + pull, ""},
		{"an unknown kind", `{"id":"x","kind":"shell.exec"}`, "step_unsupported"},
		{"two steps of one id", aFile + `,` + aFile, "plan_invalid"},
		{"an argument is missing", file(`"root":"/etc/demo",`, ``), "plan_invalid"},
		{"an unknown argument", file(`"root"`, `"sudo":"yes","root"`), "plan_invalid"},
		{"..", file("a/b.conf", "../b.conf"), "plan_invalid"},
		{".. in the root", file("/etc/demo", "/etc/demo/../cron.d"), "plan_invalid"},
		{"a root whose files are run", file("/etc/demo", "/etc/cron.d"), "plan_invalid"},
		{"an absolute name", file("a/b.conf", "/etc/passwd"), "plan_invalid"},
		{"set-uid", file("0640", "4755"), "plan_invalid"},
		{"a template that calls", file(`{{.port}}`, `{{printf .port}}`), "plan_invalid"},
		{"a template that loops", file(`{{.port}}`, `{{range .port}}x{{end}}`), "plan_invalid"},
		{"a template that names what is not there", file(`{{.port}}`, `{{.other}}`), "plan_invalid"},
		{"a control character", file(`8080`, `"a\nb"`), "plan_invalid"},
		{"an option", file(`8080`, `"--all"`), "plan_invalid"},
		{"a table in a table", file(`8080`, `{"a":{"b":1}}`), "plan_invalid"},
		{"a number of the wrong form", file(`8080`, `1.5`), "plan_invalid"},
		{"an input that nobody bound", file(`8080`, `{"from":"inputs.port"}`), "plan_invalid"},
		{"a later step", file(`8080`, `{"from":"steps.make"}`) + `,` + aCommand, "plan_invalid"},
		{"itself", file(`8080`, `{"from":"steps.conf"}`), "plan_invalid"},
		{"a step that gives nothing", aCommand + `,` + file(`8080`, `{"from":"steps.make"}`), "plan_invalid"},
		{"a fixed argument", mints + `,` + file(`"/etc/demo"`, `{"from":"steps.key"}`), "plan_invalid"},
		{"a secret in a table", mints + `,` + file(`8080`, `{"from":"steps.key"}`), "plan_invalid"},
		{"a secret as a text", mints + `,{"id":"h","kind":"health.check","with":{"check":"tcp","target":{"from":"steps.key"}}}`, "plan_invalid"},
		{"a credential of another type", strings.Replace(mints, "s3_read", "cluster_join_token", 1) + `,` + pull, "plan_invalid"},
		{"a source off the list", mints + `,` + strings.Replace(pull, "models/x/w.bin", "private/w.bin", 1), "plan_invalid"},
		{"a source that climbs", mints + `,` + strings.Replace(pull, "models/x/w.bin", "models/../private/w.bin", 1), "plan_invalid"},
		{"a source that begins alike", mints + `,` + strings.Replace(pull, "models/x/w.bin", "models-of-others/w.bin", 1), "plan_invalid"},
		{"a scope off the list", strings.Replace(mints, "models/x", "private", 1), "plan_invalid"},
		{"another unit's name", `{"id":"x","kind":"service.control","with":{"unit":"hostler-agent.service","action":"stop"}}`, "plan_invalid"},
		{"another action", `{"id":"x","kind":"service.control","with":{"unit":"demo.service","action":"mask"}}`, "plan_invalid"},
		{"no command profile", `{"id":"make","kind":"command.exec_allowlisted","with":{"command":"tool"}}`, "plan_invalid"},
		{"another command profile", command(`"command":"tool"`, `"command":"other"`), "plan_invalid"},
		{"a command profile of another step", file(`"attempts"`, `"command":{"id":"x"},"attempts"`), "plan_invalid"},
		{"a shell", command("/usr/bin/tool", "/bin/bash"), "plan_invalid"},
		{"an interpreter", command("/usr/bin/tool", "/usr/bin/python3.11"), "plan_invalid"},
		{"env", command("/usr/bin/tool", "/usr/bin/env"), "plan_invalid"},
		{"sudo", command("/usr/bin/tool", "/usr/bin/sudo"), "plan_invalid"},
		{"a relative program", command("/usr/bin/tool", "tool"), "plan_invalid"},
		{"a program of a tenant", command("/usr/bin/tool", "/home/alice/tool"), "plan_invalid"},
		{"a shell as an argument", command("--make", "/bin/sh"), "plan_invalid"},
		{"LD_PRELOAD", command(`"user"`, `"env_passthrough":["LD_PRELOAD"],"user"`), "plan_invalid"},
		{"a value beyond the schema", command(`"size":5`, `"size":50`), "plan_invalid"},
		{"an argument that the profile does not have", command(`"size":5`, `"size":5,"o":"x"`), "plan_invalid"},
		{"an option as a value", command(`{"name":"size","type":"integer","minimum":1,"maximum":9,"flag":"--size"}`, `{"name":"size","type":"string","pattern":".*"}`), "plan_invalid"},
		{"an unknown key of a profile", command(`"user"`, `"shell":true,"user"`), "plan_invalid"},
	} {
		l := newLab(t)
		p := aPlan(t, `[`+c.steps+`]`)
		if err := Check(p, all); string(taskcatalog.CodeOf(err, "")) != c.code {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.code == "" {
			continue
		}
		// A step before the fault does not run.
		before := `{"id":"first","kind":"service.control","with":{"unit":"demo.service","action":"restart"}}`
		p.Steps = append(aPlan(t, `[`+before+`]`).Steps, p.Steps...)
		e := l.run(t.Context(), "t-1", p)
		if e.err == nil || e.result != nil || len(l.systemd.Asked) > 0 || len(l.book.kept) > 0 {
			t.Errorf("%s: something ran: %q, %v", c.name, l.systemd.Asked, e.err)
		}
	}
}

// Whatever a plan has, Check ends, and what it takes binds without a panic.
func FuzzCheck(f *testing.F) {
	names, err := filepath.Glob("testdata/plans/*.json")
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	typ, err := taskcatalog.Lookup("operation.run", 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		params, err := typ.DecodeParams(raw)
		if err != nil {
			return
		}
		p := params.(*taskcatalog.OperationPlan)
		if Check(p, all) != nil {
			return
		}
		o := &Operation{Plan: p, outputs: map[string]string{}, digests: map[string]string{}}
		for i := range p.Steps {
			digest, err := o.digestOf(&p.Steps[i])
			if err != nil || len(digest) != 71 {
				t.Errorf("step %d: %v", i, err)
			}
		}
		if _, err := json.Marshal(p); err != nil {
			t.Error(err)
		}
	})
}

func TestTheFactsThatAPlanRequiresAreBounded(t *testing.T) {
	for values, code := range map[int]taskcatalog.Code{0: taskcatalog.CodePlanInvalid, 1: "", 64: "", 65: taskcatalog.CodePlanInvalid} {
		p := aPlan(t, `[`+aFile+`]`)
		p.Requires = map[string][]string{"gpu.vendor": make([]string, values)}
		if err := Check(p, all); taskcatalog.CodeOf(err, "") != code {
			t.Errorf("%d values: %v", values, err)
		}
	}
	for facts, code := range map[int]taskcatalog.Code{16: "", 17: taskcatalog.CodePlanInvalid} {
		p := aPlan(t, `[`+aFile+`]`)
		p.Requires = map[string][]string{}
		for i := range facts {
			p.Requires[fmt.Sprintf("fact_%d", i)] = []string{"x"}
		}
		if err := Check(p, all); taskcatalog.CodeOf(err, "") != code {
			t.Errorf("%d facts: %v", facts, err)
		}
	}
}
