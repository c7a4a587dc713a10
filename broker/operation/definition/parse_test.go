package definition

import (
	"strings"
	"testing"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// whole is a definition without fault, on which each case makes one change.
const whole = `operation: demo.serve
version: v1
summary: pull a file and serve it
backend_type: node_agent
safety: idle
targets: [node]
deadline_seconds: 600
requires: {gpu.vendor: [nvidia]}
inputs:
  type: object
  required: [digest, name, port, bucket]
  properties:
    digest: {type: string, pattern: "^sha256:[0-9a-f]{64}$", maxLength: 71}
    name: {type: string, pattern: "^[a-z][a-z.]*$", maxLength: 64}
    port: {type: integer, minimum: 1024, maximum: 65535}
    bucket: {type: string, maxLength: 100}
artifacts: {sources: ["s3:models/public"], signature: as_policy, max_bytes: 1000000}
steps:
  - id: credential
    kind: credential.mint
    timeout_seconds: 60
    with: {type: s3_read, scope: {from: inputs.bucket}}
  - id: pull
    kind: artifact.pull_blob
    timeout_seconds: 300
    attempts: 3
    with:
      from: s3
      source: models/public/weights
      digest: {from: inputs.digest}
      root: /var/lib/models
      name: {from: inputs.name}
      credential: {from: steps.credential}
  - id: config
    kind: file.render
    timeout_seconds: 10
    with:
      root: /etc/serve
      name: serve.conf
      template: "port = {{.port}}\n"
      values: {port: {from: inputs.port}}
  - id: check
    kind: command.exec_allowlisted
    timeout_seconds: 30
    with:
      command: probe
      args: {port: {from: inputs.port}}
command_profiles:
  - id: probe
    command: /usr/bin/serve-probe
    arg_schema: [{name: port, type: integer, minimum: 1, maximum: 65535, flag: --port=, required: true}]
    user: nobody
    timeout_seconds: 10
`

// refusals have one fault each.
var refusals = []struct {
	name, old, new string
	line           int
	code           taskcatalog.Code
}{
	{"a key that is no key", "safety: idle", "safety: idle\nshell: true", 1, profiles.CodeUnknownKey},
	{"a key twice", "safety: idle", "safety: idle\nsafety: forced", 6, profiles.CodeDuplicateKey},
	{"an anchor", "targets: [node]", "targets: &t [node]", 6, profiles.CodeNotPlain},
	{"no version", "version: v1\n", "", 1, profiles.CodeMissingKey},
	{"a version that is no version", "version: v1", "version: latest", 2, CodeBadForm},
	{"a safety that is unknown", "safety: idle", "safety: any", 5, CodeWrongValue},
	{"a target that is unknown", "targets: [node]", "targets: [everything]", 6, CodeWrongValue},
	{"no step", whole[strings.Index(whole, "steps:"):], "steps: []\n", 18, profiles.CodeOutOfBounds},
	{"a fact that no node has", "gpu.vendor: [nvidia]", "gpu.colour: [red]", 8, profiles.CodeUnknownMatchValue},
	{"a value that the fact never has", "gpu.vendor: [nvidia]", "gpu.vendor: [voodoo]", 8, profiles.CodeUnknownMatchValue},
	{"a number of GPUs that is none", "gpu.vendor: [nvidia]", "gpu.count: [many]", 8, profiles.CodeUnknownMatchValue},
	{"no GPU", "gpu.vendor: [nvidia]", `gpu.count: ["0"]`, 8, profiles.CodeUnknownMatchValue},
	{"a number of GPUs in another form", "gpu.vendor: [nvidia]", `gpu.count: ["08"]`, 8, profiles.CodeUnknownMatchValue},
	{"more GPUs than a machine has", "gpu.vendor: [nvidia]", `gpu.count: ["65"]`, 8, profiles.CodeUnknownMatchValue},
	{"two numbers of GPUs", "gpu.vendor: [nvidia]", `gpu.count: ["4", "8"]`, 8, profiles.CodeUnknownMatchValue},
	{"a shell as a kind", "kind: credential.mint", "kind: command.exec", 20, CodeUnknownKind},
	{"an argument that the kind does not have", "from: s3", "from: s3\n      mode: fast", 29, CodeUnknownArgument},
	{"a pull without a digest", "      digest: {from: inputs.digest}\n", "", 23, CodeMissingArgument},
	{"a digest that is short", "digest: {from: inputs.digest}", "digest: sha256:abc", 30, CodeNotPinned},
	{"a digest from an input of any form", `pattern: "^sha256:[0-9a-f]{64}$", maxLength: 71`, "maxLength: 71", 30, profiles.CodeWrongType},
	{"a source that is not listed", "source: models/public/weights", "source: models/private/weights", 29, CodeSourceNotListed},
	{"a source beside the listed one", "source: models/public/weights", "source: models/public-of-others/weights", 29, CodeSourceNotListed},
	{"no list of sources", `artifacts: {sources: ["s3:models/public"], signature: as_policy, max_bytes: 1000000}` + "\n", "", 18, profiles.CodeMissingKey},
	{"a template from an input", `template: "port = {{.port}}\n"`, "template: {from: inputs.bucket}", 40, CodeFixedArgument},
	{"a template that calls", `{{.port}}\n`, `{{.port}}{{printf .port}}\n`, 40, CodeBadTemplate},
	{"a template that branches", `{{.port}}\n`, `{{if .port}}x{{end}}\n`, 40, CodeBadTemplate},
	{"a template that names what it is not given", `{{.port}}\n`, `{{.port}} {{.host}}\n`, 40, CodeBadTemplate},
	{"a template that defines", `{{.port}}\n`, `{{.port}}{{define \"x\"}}{{end}}\n`, 40, CodeBadTemplate},
	{"a root of the kernel", "root: /etc/serve", "root: /proc/sys", 38, CodeWrongValue},
	{"a root with ..", "root: /etc/serve", "root: /etc/../root", 38, CodeWrongValue},
	{"a root of Hostler's", "root: /etc/serve", "root: /etc/hostler-agent", 38, CodeWrongValue},
	{"the root /etc", "root: /etc/serve", "root: /etc", 38, CodeWrongValue},
	{"a root from an input", "root: /etc/serve", "root: {from: inputs.bucket}", 38, CodeFixedArgument},
	{"a name with ..", "name: serve.conf", "name: ../shadow", 39, CodeWrongValue},
	{"a name that is hidden", "name: serve.conf", "name: .ssh/authorized_keys", 39, CodeWrongValue},
	{"an input that is not there", "values: {port: {from: inputs.port}}", "values: {port: {from: inputs.prt}}", 41, CodeUnknownInput},
	{"a value from nowhere", "scope: {from: inputs.bucket}", "scope: {from: env.HOME}", 22, CodeWrongValue},
	{"a step that comes later", "credential: {from: steps.credential}", "credential: {from: steps.config}", 33, CodeUnknownStepID},
	{"a secret in a file", "values: {port: {from: inputs.port}}", "values: {port: {from: steps.credential}}", 41, CodeSecretMisused},
	{"a secret as an argument", "args: {port: {from: inputs.port}}", "args: {port: {from: steps.credential}}", 47, CodeSecretMisused},
	{"a secret as a text", "source: models/public/weights", "source: {from: steps.credential}", 29, CodeSecretMisused},
	{"a credential in the definition", "credential: {from: steps.credential}", "credential: hunter2", 33, CodeWrongValue},
	{"a credential of another type", "type: s3_read", "type: oci_pull", 33, CodeSecretMisused},
	{"a credential that nothing uses", "      credential: {from: steps.credential}\n", "", 19, CodeUnusedSecret},
	{"two steps of one name", "id: check", "id: config", 42, profiles.CodeDuplicate},
	{"a command that is not there", "command: probe", "command: proof", 46, profiles.CodeUnknownProfile},
	{"a command from an input", "command: probe", "command: {from: inputs.bucket}", 46, CodeFixedArgument},
	{"an argument that the command lacks", "args: {port: {from: inputs.port}}", "args: {port: {from: inputs.port}, host: a}", 47, CodeUnknownArgument},
	{"a command without its argument", "      args: {port: {from: inputs.port}}\n", "", 42, CodeMissingArgument},
	{"an argument of another type", "args: {port: {from: inputs.port}}", "args: {port: {from: inputs.bucket}}", 47, profiles.CodeWrongType},
	{"a shell as a command", "/usr/bin/serve-probe", "/bin/sh", 50, profiles.CodeRunsPrograms},
	{"env as a command", "/usr/bin/serve-probe", "/usr/bin/env", 50, profiles.CodeRunsPrograms},
	{"a setuid helper as a command", "/usr/bin/serve-probe", "/usr/bin/sudo", 50, profiles.CodeRunsPrograms},
	{"a variable that loads code", "    user: nobody\n", "    user: nobody\n    env_passthrough: [LD_PRELOAD]\n", 53, profiles.CodeEnvRefused},
	{"an option smuggled as a fixed value", "scope: {from: inputs.bucket}", "scope: --all", 22, CodeWrongValue},
	{"an input without a bound", "bucket: {type: string, maxLength: 100}", "bucket: {type: string}", 16, CodeInputUnbounded},
	{"a signature with a bound of its own", "bucket: {type: string, maxLength: 100}", "bucket: {type: string, format: signature, maxLength: 100}", 16, CodeInputUnbounded},
	{"a signature that is a number", "port: {type: integer, minimum: 1024, maximum: 65535}", "port: {type: integer, format: signature, minimum: 1024, maximum: 65535}", 15, CodeInputUnbounded},
	{"a format that is none", "bucket: {type: string, maxLength: 100}", "bucket: {type: string, format: uri, maxLength: 100}", 16, CodeWrongValue},
	{"a signature as a text", "bucket: {type: string, maxLength: 100}", "bucket: {type: string, format: signature}", 22, profiles.CodeWrongType},
	{"any text as a signature", "credential: {from: steps.credential}", "signature: {from: inputs.bucket}", 33, profiles.CodeWrongType},
	{"an empty signature", "credential: {from: steps.credential}", "signature: ''", 33, CodeWrongValue},
	{"a number without a bound", "port: {type: integer, minimum: 1024, maximum: 65535}", "port: {type: integer}", 15, CodeInputUnbounded},
	{"an input that refers elsewhere", "bucket: {type: string, maxLength: 100}", "bucket: {$ref: 'file:///etc/passwd'}", 16, profiles.CodeUnknownKey},
	{"a pattern that matches a part", `pattern: "^[a-z][a-z.]*$"`, `pattern: "[a-z][a-z.]*"`, 14, CodeInputUnbounded},
	{"a pattern with a loose alternative", `pattern: "^[a-z][a-z.]*$"`, `pattern: "^[a-z]|[a-z.]*$"`, 14, CodeInputUnbounded},
	{"a pattern of lines", `pattern: "^[a-z][a-z.]*$"`, `pattern: "(?m)^[a-z][a-z.]*$"`, 14, CodeInputUnbounded},
	{"an enum with an option", "bucket: {type: string, maxLength: 100}", "bucket: {type: string, enum: [a, --all]}", 16, CodeWrongValue},
	{"a root where files are run", "root: /etc/serve", "root: /etc/cron.d", 38, CodeWrongValue},
	{"a root below one where files are run", "root: /etc/serve", "root: /etc/systemd/system/serve.service.d", 38, CodeWrongValue},
	{"a root that every Python loads", "root: /etc/serve", "root: /etc/python3.12", 38, CodeWrongValue},
	{"a root of a dispatcher", "root: /etc/serve", "root: /etc/NetworkManager/dispatcher.d", 38, CodeWrongValue},
	{"a length that no text may have", "bucket: {type: string, maxLength: 100}", "bucket: {type: string, minLength: 2000, maxLength: 3000}", 16, profiles.CodeOutOfBounds},
	{"a root of programs", "root: /etc/serve", "root: /usr/local/bin", 38, CodeWrongValue},
	{"a root of accounts", "root: /etc/serve", "root: /home/alice", 38, CodeWrongValue},
	{"a list of sources that says no kind", `sources: ["s3:models/public"]`, "sources: [models/public]", 17, CodeWrongValue},
	{"a list with another spelling of a registry", `sources: ["s3:models/public"]`, `sources: ["s3:models/public", "oci:r.example:443/m"]`, 17, CodeWrongValue},
	{"a list of sources that climbs", `sources: ["s3:models/public"]`, `sources: ["s3:models/../public"]`, 17, CodeWrongValue},
	{"a source that climbs", "source: models/public/weights", "source: models/public/../private/weights", 29, CodeSourceNotListed},
	{"a source of another kind", "from: s3", "from: gcs", 29, CodeSourceNotListed},
	{"a credential for what is not listed", "scope: {from: inputs.bucket}", "scope: models", 22, CodeSourceNotListed},
	{"a value that may be left out", "required: [digest, name, port, bucket]", "required: [digest, name, port]", 22, CodeOptionalInput},
	{"a value of a template that may be left out", "required: [digest, name, port, bucket]", "required: [digest, name, bucket]", 41, CodeOptionalInput},
	{"any text in a file", `values: {port: {from: inputs.port}}`, `values: {port: {from: inputs.bucket}}`, 41, CodeInputUnbounded},
	{"a fact without a value", "gpu.vendor: [nvidia]", "gpu.vendor: []", 8, profiles.CodeOutOfBounds},
	{"a list with a list", "from: s3", "from: [a, [b]]", 28, CodeWrongValue},
	{"a value beyond the command's bound", "args: {port: {from: inputs.port}}", "args: {port: 99999}", 47, CodeWrongValue},
	{"a number that is read as another", "maximum: 65535}\n    bucket", "maximum: 9007199254740993}\n    bucket", 15, CodeInputUnbounded},
	{"a pattern that is none", `pattern: "^[a-z][a-z.]*$"`, `pattern: "^[a-z"`, 14, CodeInputSchema},
	{"an input that is required and not there", "required: [digest,", "required: [nothing, digest,", 11, CodeUnknownInput},
	{"a floating number", "deadline_seconds: 600", "deadline_seconds: 6.5", 7, profiles.CodeWrongType},
	{"no deadline", "deadline_seconds: 600", "deadline_seconds: 0", 7, profiles.CodeOutOfBounds},
	{"too many attempts", "attempts: 3", "attempts: 11", 26, profiles.CodeOutOfBounds},
	{"an adapter that touches the host", "backend_type: node_agent", "backend_type: k8s_adapter", 4, CodeWrongValue},
}

func TestEachFaultIsNamedWithItsLine(t *testing.T) {
	parsed(t, whole)
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(whole, c.old) {
				t.Fatalf("the whole definition has no %s", c.old)
			}
			d, problems := Parse(profiles.File{Name: "op.yaml", Text: []byte(strings.Replace(whole, c.old, c.new, 1))})
			if d != nil {
				t.Fatal("taken")
			}
			for _, p := range problems {
				if p.Code == c.code && p.Line == c.line && p.File == "op.yaml" && p.Message != "" {
					return
				}
			}
			t.Errorf("want op.yaml:%d: %s, got %v", c.line, c.code, []profiles.Problem(problems))
		})
	}
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	text := strings.NewReplacer("root: /etc/serve", "root: /proc", "command: probe", "command: proof", "source: models/public/weights", "source: other/weights").Replace(whole)
	_, problems := Parse(profiles.File{Name: "op.yaml", Text: []byte(text)})
	seen := map[taskcatalog.Code]bool{}
	for _, p := range problems {
		seen[p.Code] = true
	}
	if !seen[CodeWrongValue] || !seen[profiles.CodeUnknownProfile] || !seen[CodeSourceNotListed] || !seen[profiles.CodeUnusedProfile] {
		t.Errorf("told: %v", []profiles.Problem(problems))
	}
}

// with replaces a step of the whole definition by another one.
func with(step string) string {
	i := strings.Index(whole, "  - id: config")
	j := strings.Index(whole, "  - id: check")
	return whole[:i] + step + whole[j:]
}

// What ends the machine, opens a way in or is Hostler's own is no unit of a definition; a package has its
// version, and no order in its place.
func TestUnitsAndPackagesAreHeldToTheirForms(t *testing.T) {
	for _, c := range []struct {
		kind, args string
		code       taskcatalog.Code
	}{
		{"service.control", "{unit: slurmd.service, action: restart}", ""},
		{"service.control", "{unit: hostler-agent.service, action: stop}", CodeWrongValue},
		{"service.control", "{unit: poweroff.target, action: start}", CodeWrongValue},
		{"service.control", "{unit: debug-shell.service, action: start}", CodeWrongValue},
		{"service.control", "{unit: systemd-reboot.service, action: start}", CodeWrongValue},
		{"service.control", "{unit: ssh.service, action: stop}", CodeWrongValue},
		{"service.control", "{unit: slurmd, action: start}", CodeWrongValue},
		{"service.control", "{unit: slurmd.service, action: mask}", CodeWrongValue},
		{"package.install", "{packages: [slurmd=22.05.8-4]}", ""},
		{"package.install", "{packages: [slurmd]}", CodeNotPinned},
		{"package.install", "{packages: ['openssh-server=1:9.6-']}", CodeNotPinned},
		{"package.install", "{packages: ['slurmd=22.05+']}", CodeNotPinned},
		{"package.install", "{packages: ['--allow-downgrades']}", CodeNotPinned},
		{"package.install", "{packages: {from: inputs.bucket}}", profiles.CodeWrongType},
	} {
		text := with("  - {id: config, kind: " + c.kind + ", timeout_seconds: 60, with: " + c.args + "}\n")
		_, problems := Parse(profiles.File{Name: "op.yaml", Text: []byte(text)})
		if c.code == "" && problems != nil || c.code != "" && (len(problems) != 1 || problems[0].Code != c.code) {
			t.Errorf("%s %s: %v", c.kind, c.args, []profiles.Problem(problems))
		}
	}
}

// What only Kubernetes has is refused where another cluster would pass over it.
func TestStepsOfOtherClustersTakeNothingOfKubernetes(t *testing.T) {
	for step, code := range map[string]taskcatalog.Code{
		"cluster.join, timeout_seconds: 60, with: {cluster: k8s, credential: {from: steps.token}, taints: [a:NoSchedule], kubelet: {from: steps.pull}}": "",
		"cluster.join, timeout_seconds: 60, with: {cluster: slurm, credential: {from: steps.token}, taints: [a:NoSchedule]}":                            CodeUnknownArgument,
		"cluster.join, timeout_seconds: 60, with: {cluster: slurm, credential: {from: steps.token}, kubelet: {from: steps.pull}}":                       CodeUnknownArgument,
		"cluster.verify, timeout_seconds: 60, with: {cluster: k8s, name: lab, labels: [a=b], taints: [a:NoSchedule], version: v1.35.4, gpus: 8}":        "",
		"cluster.verify, timeout_seconds: 60, with: {cluster: slurm, name: lab, labels: [a=b]}":                                                         CodeUnknownArgument,
		"cluster.verify, timeout_seconds: 60, with: {cluster: ray, name: lab, gpus: 8}":                                                                 CodeUnknownArgument,
		"cluster.verify, timeout_seconds: 60, with: {cluster: slurm, name: lab, version: v1.35.4}":                                                      CodeUnknownArgument,
		"cluster.verify, timeout_seconds: 60, with: {cluster: slurm, name: lab}":                                                                        "",
	} {
		token := ""
		if strings.Contains(step, "steps.token") {
			token = "  - {id: token, kind: credential.mint, timeout_seconds: 60, with: {type: cluster_join_token, scope: lab}}\n"
		}
		text := with(token + "  - {id: config, kind: " + step + "}\n")
		_, problems := Parse(profiles.File{Name: "op.yaml", Text: []byte(text)})
		if code == "" && problems != nil || code != "" && (len(problems) != 1 || problems[0].Code != code) {
			t.Errorf("%s: %v", step, []profiles.Problem(problems))
		}
	}
}

// A join of Ray says where Ray is, and no other join does.
func TestAJoinOfRayNamesItsEnvironment(t *testing.T) {
	for args, code := range map[string]taskcatalog.Code{
		"{cluster: ray, credential: {from: steps.token}, environment: {from: steps.pull}}":   "",
		"{cluster: ray, credential: {from: steps.token}}":                                    CodeMissingArgument,
		"{cluster: slurm, credential: {from: steps.token}}":                                  "",
		"{cluster: slurm, credential: {from: steps.token}, environment: {from: steps.pull}}": CodeUnknownArgument,
	} {
		text := with("  - {id: token, kind: credential.mint, timeout_seconds: 60, with: {type: cluster_join_token, scope: lab}}\n" +
			"  - {id: join, kind: cluster.join, timeout_seconds: 60, with: " + args + "}\n")
		_, problems := Parse(profiles.File{Name: "op.yaml", Text: []byte(text)})
		if code == "" && problems != nil || code != "" && (len(problems) != 1 || problems[0].Code != code) {
			t.Errorf("%s: %v", args, []profiles.Problem(problems))
		}
	}
}

// A long key costs a line of an answer, and not memory for each value below it.
func TestALongKeyIsRefused(t *testing.T) {
	text := "? " + strings.Repeat("k", 129) + "\n: [1, 2, 3]\n"
	if _, problems := Parse(profiles.File{Name: "op.yaml", Text: []byte(text)}); len(problems) != 1 || problems[0].Code != profiles.CodeTooLarge {
		t.Error(problems)
	}
}

// Whatever the text is, Parse answers: with problems, or with a definition that reads back from its JSON.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	for _, c := range refusals {
		f.Add(strings.Replace(whole, c.old, c.new, 1))
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, problems := Parse(profiles.File{Name: "op.yaml", Text: []byte(text)})
		if (d == nil) == (problems == nil) {
			t.Fatalf("a definition and problems, or neither: %v", problems)
		}
		if d == nil {
			return
		}
		raw, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var again Definition
		if err := taskcatalog.DecodeStrict(raw, &again); err != nil || again.Digest() != d.Digest() {
			t.Errorf("it does not read back (%v): %s", err, raw)
		}
	})
}

// Whoever calls an operation chooses no file and no unit to be looked for on the node.
func TestACallerLooksForNothingOnTheNode(t *testing.T) {
	for check, refused := range map[string]bool{"file": true, "unit": true, "tcp": false, "http": false} {
		text := "operation: demo.look\nversion: v1\nsummary: look\nbackend_type: node_agent\nsafety: forced\ntargets: [node]\ndeadline_seconds: 60\n" +
			"inputs: {type: object, required: [what], properties: {what: {type: string, maxLength: 100}}}\n" +
			"steps:\n  - {id: look, kind: health.check, timeout_seconds: 10, with: {check: " + check + ", target: {from: inputs.what}}}\n"
		_, problems := Parse(profiles.File{Name: "look.yaml", Text: []byte(text)})
		if got := len(problems) == 1 && problems[0].Code == CodeFixedArgument; got != refused || !refused && len(problems) > 0 {
			t.Errorf("%s: %v", check, problems)
		}
	}
}
