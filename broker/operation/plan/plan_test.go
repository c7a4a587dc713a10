package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation/definition"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/operations"
)

var update = flag.Bool("update", false, "write the goldens anew: read their diff")

func shipped(t testing.TB, id string) *definition.Definition {
	t.Helper()
	text, err := operations.Files.ReadFile(id + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, string(text))
}

func parsed(t testing.TB, text string) *definition.Definition {
	t.Helper()
	d, problems := definition.Parse(profiles.File{Name: "op.yaml", Text: []byte(text)})
	if problems != nil {
		t.Fatal(problems)
	}
	return d
}

// every has each way in which a value reaches an argument.
const every = `operation: demo.serve
version: v2
summary: pull a file and serve it
backend_type: node_agent
safety: idle
targets: [node, allocation]
deadline_seconds: 600
inputs:
  type: object
  required: [digest, name, port, source]
  properties:
    digest: {type: string, pattern: "^sha256:[0-9a-f]{64}$", maxLength: 71}
    name: {type: string, maxLength: 64}
    port: {type: integer, minimum: 0, maximum: 9007199254740991}
    source: {type: string, maxLength: 100}
    host: {type: string, maxLength: 64}
    quiet: {type: boolean}
    labels: {type: array, maxItems: 4, items: {type: string, maxLength: 20}}
    ports: {type: integer, minimum: 0, maximum: 8}
artifacts: {sources: ["s3:models/public", "gcs:models", "huggingface:org/model"], signature: as_policy, max_bytes: 1000000}
steps:
  - id: credential
    kind: credential.mint
    timeout_seconds: 60
    with: {type: s3_read, scope: models/public}
  - id: pull
    kind: artifact.pull_blob
    timeout_seconds: 3600
    attempts: 3
    with:
      from: s3
      source: {from: inputs.source}
      digest: {from: inputs.digest}
      root: /var/lib/models
      name: {from: inputs.name}
      credential: {from: steps.credential}
  - id: fabric
    kind: network.fabric.verify
    timeout_seconds: 10
    rerun: true
    with: {ports: {from: inputs.ports}}
  - id: config
    kind: file.render
    timeout_seconds: 10
    with:
      root: /etc/serve
      name: serve.conf
      template: "port = {{.port}}\nfile = {{.file}}\n"
      values: {port: {from: inputs.port}, file: {from: steps.pull}}
  - id: check
    kind: command.exec_allowlisted
    timeout_seconds: 30
    with:
      command: probe
      args: {port: {from: inputs.port}, host: {from: inputs.host}, quiet: {from: inputs.quiet}, labels: {from: inputs.labels}}
command_profiles:
  - id: probe
    command: /usr/bin/serve-probe
    arg_schema:
      - {name: port, type: integer, minimum: 1, maximum: 65535, flag: --port=, required: true}
      - {name: host, type: string, pattern: "[a-z]+", flag: --host=}
      - {name: quiet, type: boolean, flag: --quiet}
      - {name: labels, type: list, pattern: "[a-z]+", max_items: 4, flag: --label=}
    user: nobody
    timeout_seconds: 10
`

func demo(t testing.TB) *definition.Definition { return parsed(t, every) }

var (
	digest  = "sha256:" + strings.Repeat("a", 64)
	inputs  = `{"digest":"` + digest + `","name":"llama/w.bin","port":8080,"source":"models/public/w.bin"}`
	request = Request{OperationID: "op-1", Attempt: 1, ProjectID: "p-1", AllocationID: "a-1", Inputs: json.RawMessage(inputs)}
)

func with(change func(*Request)) Request {
	r := request
	change(&r)
	return r
}

func given(text string) Request { return with(func(r *Request) { r.Inputs = json.RawMessage(text) }) }

func TestPlansAreWhatWasAgreed(t *testing.T) {
	for name, c := range map[string]struct {
		of *definition.Definition
		r  Request
	}{
		"required": {demo(t), request},
		"all": {demo(t), given(strings.TrimSuffix(inputs, "}") +
			`,"host":"node","quiet":true,"labels":["a","b"],"ports":8}`)},
		"narrowed": {demo(t), with(func(r *Request) {
			r.Limits = Limits{DeadlineSeconds: 5, MaxArtifactBytes: 10, Sources: []string{"gcs:models", "s3:models/public/w.bin", "s3:models"}}
		})},
		"bootstrap": {shipped(t, "gpu.host.bootstrap@v1"), given(`{"packages":["cuda=12.4"]}`)},
		"stage":     {shipped(t, "model.artifact.stage@v1"), given(`{"bucket":"models","source":"models/w.bin","digest":"` + digest + `","name":"w.bin"}`)},
		"readiness": {shipped(t, "runtime.readiness.verify@v1"), Request{OperationID: "op-2", Attempt: 2}},
	} {
		p, err := Make(c.of, c.r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		raw, err := taskcatalog.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := json.Indent(&got, raw, "", "  "); err != nil {
			t.Fatal(err)
		}
		got.WriteByte('\n')
		golden(t, name+".json", got.Bytes())
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test ./broker/operation/plan -update, and read the diff):\n%s", file, got)
	}
}

func TestRefusalsHaveTheirCode(t *testing.T) {
	change := func(old, new string) Request { return given(strings.Replace(inputs, old, new, 1)) }
	also := func(more string) Request { return given(strings.TrimSuffix(inputs, "}") + "," + more + "}") }
	limits := func(l Limits) Request { return with(func(r *Request) { r.Limits = l }) }
	for name, c := range map[string]struct {
		r    Request
		code string
	}{
		"no inputs":                          {given(""), CodeInputs},
		"null":                               {given("null"), CodeInputs},
		"an input of another type":           {change("8080", `"8080"`), CodeInputs},
		"an input that is unknown":           {also(`"shell":"x"`), CodeInputs},
		"an input twice":                     {also(`"port":1`), CodeInputs},
		"a value from somewhere":             {change("8080", `{"from":"steps.credential"}`), CodeInputs},
		"an option":                          {change("llama/w.bin", "--all"), CodeInputs},
		"a name that leaves its root":        {change("llama/w.bin", "llama/../../shadow"), CodeInputForm},
		"a name that is absolute":            {change("llama/w.bin", "/etc/shadow"), CodeInputForm},
		"a hidden name":                      {change("llama/w.bin", ".ssh/authorized_keys"), CodeInputForm},
		"a number that the command refuses":  {change("8080", "70000"), CodeInputForm},
		"a text that the command refuses":    {also(`"host":"secret-HOST"`), CodeInputForm},
		"a list that the command refuses":    {also(`"labels":["secret-ITEM"]`), CodeInputForm},
		"an empty list":                      {also(`"labels":[]`), CodeInputForm},
		"a source beside the listed one":     {change("models/public/w.bin", "models/public-secret/w.bin"), CodeSource},
		"a source that climbs":               {change("models/public/w.bin", "models/public/../secret/w.bin"), CodeSource},
		"a source with a query":              {change("models/public/w.bin", "models/public/w.bin?secret"), CodeSource},
		"a source that the policy lacks":     {limits(Limits{Sources: []string{"s3:models/public/other", "gcs:models"}}), CodeSourceDenied},
		"a policy that permits no source":    {limits(Limits{Sources: []string{}}), CodeSourceDenied},
		"a credential wider than the policy": {limits(Limits{Sources: []string{"s3:models/public/w.bin"}}), CodeSourceDenied},
		"no operation id":                    {with(func(r *Request) { r.OperationID = "" }), CodeInvalid},
		"no attempt":                         {with(func(r *Request) { r.Attempt = 0 }), CodeInvalid},
	} {
		_, err := Make(demo(t), c.r)
		e := broker.AsError(err)
		if err == nil || e.Code != c.code {
			t.Errorf("%s: %v (%s), want %s", name, err, e.Code, c.code)
			continue
		}
		if strings.Contains(e.Message, "secret") || strings.Contains(e.Message, "70000") || strings.Contains(e.Message, "shadow") {
			t.Errorf("%s: the error quotes a value: %v", name, err)
		}
	}
}

// Files have signatures, and Python packages none that is verified.
func TestADefinitionOrAPolicyMayRequireSignatures(t *testing.T) {
	python := strings.NewReplacer("huggingface:org/model", "pypi:pypi.example", "  - id: fabric\n",
		"  - {id: env, kind: python.env.create, timeout_seconds: 60, with: {source: pypi.example/simple, lock: {from: steps.pull}, root: /opt/env, name: env}}\n  - id: fabric\n",
	).Replace(every)
	required := strings.NewReplacer("signature: as_policy", "signature: required")
	byPolicy := with(func(r *Request) { r.Limits = Limits{SignaturesBy: "the global policy"} })
	for name, c := range map[string]struct {
		text string
		r    Request
		by   string // empty: it has a plan
	}{
		"a file, by the definition":   {required.Replace(every), request, ""},
		"a file, by a policy":         {every, byPolicy, ""},
		"python, by the definition":   {required.Replace(python), request, "the definition requires"},
		"python, by a policy":         {python, byPolicy, "the global policy requires"},
		"python, and nobody requires": {python, request, ""},
	} {
		p, err := Make(parsed(t, c.text), c.r)
		switch e := broker.AsError(err); {
		case c.by != "" && (e.Code != CodeUnsigned || !strings.Contains(e.Message, c.by+" a signature of what step env brings")):
			t.Errorf("%s: %v", name, err)
		case c.by == "" && (err != nil || p.Artifacts.Signed != !strings.Contains(name, "nobody")):
			t.Errorf("%s: %+v %v", name, p.Artifacts, err)
		}
	}
}

// What is given as the signature of a file is in the plan as it was given, and bounded.
func TestTheSignatureOfAFileIsInThePlan(t *testing.T) {
	d := parsed(t, strings.NewReplacer("    host: {", "    signed: {type: string, format: signature}\n    host: {",
		"      name: {from: inputs.name}\n      credential", "      name: {from: inputs.name}\n      signature: {from: inputs.signed}\n      credential").Replace(every))
	with := func(signature string) Request {
		raw, err := json.Marshal(signature)
		if err != nil {
			t.Fatal(err)
		}
		return given(strings.TrimSuffix(inputs, "}") + `,"signed":` + string(raw) + "}")
	}
	const bundle = "{\n\t\"mediaType\": \"x\"\n}\n"
	p, err := Make(d, with(bundle))
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := ArtifactOf(p.Steps[1]); !ok || a != (Artifact{Source: "s3:models/public/w.bin", Digest: digest, Given: bundle}) {
		t.Errorf("%+v", a)
	}
	if _, oci := (Artifact{Source: "s3:oci:x"}).Repository(); oci {
		t.Error("a file has a repository")
	}
	for _, signature := range []string{"", strings.Repeat("x", taskcatalog.MaxStepSignature+1)} {
		if _, err := Make(d, with(signature)); broker.AsError(err).Code != CodeInputs || !strings.Contains(err.Error(), "input signed has 1 to 65536 bytes") {
			t.Errorf("a signature of %d bytes: %v", len(signature), err)
		}
	}
	if p, err := Make(d, request); err != nil || len(p.Steps[1].With) != 6 {
		t.Errorf("without a signature: %+v %v", p.Steps, err)
	}
}

func TestAnAdaptersOperationHasNoPlan(t *testing.T) {
	d := parsed(t, `operation: demo.look
version: v1
summary: ask the cluster
backend_type: slurm_adapter
safety: forced
targets: [node]
deadline_seconds: 600
steps:
  - {id: look, kind: cluster.verify, timeout_seconds: 10, with: {cluster: slurm, name: lab}}
`)
	if _, err := Make(d, Request{OperationID: "op-1", Attempt: 1}); broker.AsError(err).Code != CodeBackend {
		t.Error(err)
	}
}

func TestAPlanIsBounded(t *testing.T) {
	long := strings.Repeat("x", 60<<10)
	var text strings.Builder
	text.WriteString("operation: demo.long\nversion: v1\nsummary: long\nbackend_type: node_agent\nsafety: idle\ntargets: [node]\ndeadline_seconds: 60\nsteps:\n")
	d := parsed(t, text.String()+step("a", "short"))
	for range 5 {
		d.Steps = append(d.Steps, definition.Step{ID: "b", Kind: "file.render", TimeoutSeconds: 1, With: map[string]taskcatalog.StepValue{"template": {Literal: long}}})
	}
	_, err := Make(d, Request{OperationID: "op-1", Attempt: 1})
	var e *broker.Error
	if !errors.As(err, &e) || e.Code != CodeTooLarge {
		t.Error(err)
	}
}

func step(id, text string) string {
	return "  - {id: " + id + ", kind: file.render, timeout_seconds: 1, with: {root: /etc/serve, name: " + id + ", template: " + text + "}}\n"
}

// A longer spelling of a wider source is not the narrower of two.
func TestThePlanHasTheNarrowerOfTwoSourcesHoweverTheyAreSpelled(t *testing.T) {
	d := parsed(t, `operation: demo.pull
version: v1
summary: pull an artifact
backend_type: node_agent
safety: forced
targets: [node]
deadline_seconds: 600
artifacts: {sources: ["oci:registry.example"], signature: as_policy, max_bytes: 1000}
steps:
  - {id: one, kind: artifact.pull_oci, timeout_seconds: 60, with: {source: registry.example/m/x, digest: "`+digest+`", root: /var/lib/models, name: a}}
`)
	d.Artifacts.Sources = []string{"oci:registry.example:443"}
	p, err := Make(d, Request{OperationID: "op-1", Attempt: 1, Limits: Limits{Sources: []string{"oci:registry.example/m"}}})
	if err != nil || !slices.Equal(p.Artifacts.Sources, []string{"oci:registry.example/m"}) {
		t.Errorf("%+v, %v", p.Artifacts, err)
	}
}

func TestThePlanTellsItsSources(t *testing.T) {
	p, err := Make(demo(t), request)
	if got := strings.Join(Sources(p), " "); err != nil || got != "s3:models/public s3:models/public/w.bin" {
		t.Errorf("%q, %v", got, err)
	}
}
