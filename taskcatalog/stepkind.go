package taskcatalog

import "slices"

// StepType is the type of a step's argument, of a step's output and of an operation's input.
type StepType string

// The types of arguments.
const (
	StepText    StepType = "text"    // of one line
	StepTexts   StepType = "texts"   // a list of texts
	StepInteger StepType = "integer" // 0 or more
	StepBoolean StepType = "boolean"
	StepTable   StepType = "table"  // names with texts, integers, booleans or lists of texts
	StepDigest  StepType = "digest" // sha256:…
	StepName    StepType = "name"   // of a file below a root: relative, plain, without ..
	StepRoot    StepType = "root"   // a directory of the node: absolute, plain
	StepPath    StepType = "path"   // of a file that an earlier step has put on the node
	StepSecret  StepType = "secret" // a handle: the secret itself is in the memory of the node's agent alone

	StepPackages StepType = "packages" // a list of NAME=VERSION
	StepTemplate StepType = "template" // text/template of several lines, with {{.name}} alone
	StepUnit     StepType = "unit"     // the full name of a unit of systemd
	StepAccount  StepType = "account"

	StepSignature StepType = "signature" // of a file: Sigstore bundles, or what cosign 2 writes. The broker alone verifies it
)

// StepKind is a row of the table of kinds: what a step of an operation may be. A definition composes
// kinds, the broker binds their arguments, and the agent has code for each kind.
type StepKind struct {
	Name    string
	Summary string
	Args    []StepArg
	Output  StepType // what later steps may bind from the step; empty: nothing
	// Resolved: the resolver profiles of the node say which program does the step.
	Resolved bool
	// Artifact: the step brings something to the node. Its source must be in the definition's list.
	Artifact bool
}

// StepArg is an argument of a kind.
type StepArg struct {
	Name     string
	Type     StepType
	Required bool
	// Fixed: the definition says the value itself. Neither an input nor a step may give it.
	Fixed bool
	// Values are the permitted values; empty: any value of the type. Of a secret: its credential types.
	Values  []string
	Summary string
	// Since is the form of plans that has the argument; 0: all have it. An agent refuses an argument that it does not know.
	Since int
}

// OperationForm is the form of plans of this release. Raise it with each new argument of a kind that is already there.
const OperationForm = 3

// NeedsForm returns the form that an agent must understand to carry out a plan, with the first step and argument that need
// it. Each agent understands form 1. A join of a cluster whose records have labels needs form 3 whatever its arguments: an
// agent of before joins without ClusterNodeLabel, and the record is nobody's then.
func (p *OperationPlan) NeedsForm() (form int, step, argument string) {
	form = 1
	for _, s := range p.Steps {
		kind, _ := StepKindOf(s.Kind)
		for _, a := range kind.Args {
			if _, given := s.With[a.Name]; given && a.Since > form {
				form, step, argument = a.Since, s.ID, a.Name
			}
		}
		if on := s.With["cluster"].Literal; s.Kind == "cluster.join" && (on == "k8s" || on == "ray") && form < 3 {
			form, step, argument = 3, s.ID, "cluster"
		}
	}
	return form, step, argument
}

// Types of credentials that a step can mint, beside CredentialOCIPull.
const (
	CredentialS3Read      = "s3_read"
	CredentialGCSRead     = "gcs_read"
	CredentialHFToken     = "hf_token"
	CredentialClusterJoin = "cluster_join_token" // a ClusterJoin, given once
	// CredentialClusterMembership is no secret: a step cluster.verify asks for it on the same way, and gets
	// a ClusterMembership.
	CredentialClusterMembership = "cluster_membership"
	// CredentialClusterLeave is no secret either: a step cluster.leave asks for it, the broker gives the
	// cluster its next order to let the node go, and the step gets the ClusterMembership after that.
	CredentialClusterLeave = "cluster_leave"
)

var (
	blobCredentials = []string{CredentialS3Read, CredentialGCSRead, CredentialHFToken}
	clusters        = []string{"slurm", "k8s", "ray"}
	argRoot         = StepArg{Name: "root", Type: StepRoot, Required: true, Fixed: true, Summary: "the directory below which the step may write"}
	argDigest       = StepArg{Name: "digest", Type: StepDigest, Required: true, Summary: "what the whole content must have"}
	argCluster      = StepArg{Name: "cluster", Type: StepText, Required: true, Fixed: true, Values: clusters, Summary: "the kind of the cluster"}
	argClusterName  = StepArg{Name: "name", Type: StepText, Required: true, Summary: "the cluster, as hostler cluster list shows it"}
)

func argName(of string) StepArg {
	return StepArg{Name: "name", Type: StepName, Required: true, Summary: "the " + of + " below root"}
}

// stepKinds is the table of kinds, in the order of the reference.
var stepKinds = []StepKind{
	{
		Name: "artifact.pull_oci", Summary: "pull an OCI artifact by its digest", Output: StepPath, Artifact: true,
		Args: []StepArg{
			{Name: "source", Type: StepText, Required: true, Summary: "registry and repository, without a tag"},
			argDigest, argRoot, argName("directory"),
			{Name: "credential", Type: StepSecret, Values: []string{CredentialOCIPull}, Summary: "default: the registry is asked without one"},
		},
	},
	{
		Name: "artifact.pull_blob", Summary: "pull a file in pieces, and go on where a transfer broke off", Output: StepPath, Artifact: true,
		Args: []StepArg{
			{Name: "from", Type: StepText, Required: true, Values: []string{"s3", "gcs", "huggingface", "https_signed"}, Summary: "the kind of the source"},
			{Name: "source", Type: StepText, Required: true, Summary: "bucket and object, repository with revision and file, or host and path of a URL"},
			argDigest, argRoot, argName("file"),
			{Name: "signature", Since: 2, Type: StepSignature, Summary: "what vouches for the digest; default: nobody does"},
			{Name: "credential", Type: StepSecret, Values: blobCredentials, Summary: "default: the source is asked without one"},
		},
	},
	{
		Name: "artifact.verify", Summary: "hold what was pulled against its digest, and against its signature where the policy asks for one", Output: StepPath,
		Args: []StepArg{
			{Name: "path", Type: StepPath, Required: true, Summary: "what an earlier step has pulled"},
			argDigest,
		},
	},
	{
		Name: "credential.mint", Summary: "get a credential that is valid for this task alone", Output: StepSecret,
		Args: []StepArg{
			{
				Name: "type", Type: StepText, Required: true, Fixed: true, Summary: "the type of the credential",
				Values: []string{CredentialOCIPull, CredentialS3Read, CredentialGCSRead, CredentialHFToken, CredentialClusterJoin},
			},
			{Name: "scope", Type: StepText, Required: true, Summary: "what it is for: a repository, a bucket and prefix, a cluster"},
		},
	},
	{
		Name: "package.install", Summary: "install packages of the system in the versions that are named",
		Args: []StepArg{{Name: "packages", Type: StepPackages, Required: true, Summary: "NAME=VERSION each, 64 at most"}},
	},
	{
		Name: "python.env.create", Summary: "make a Python environment from a lock file with hashes", Output: StepPath, Artifact: true,
		Args: []StepArg{
			{Name: "source", Type: StepText, Required: true, Summary: "host and path of the package index; artifacts lists the hosts of its files as well"},
			{Name: "lock", Type: StepPath, Required: true, Summary: "the lock file, every line with its hash"},
			argRoot, argName("environment"),
		},
	},
	{
		Name: "file.render", Summary: "write a file from a template", Output: StepPath,
		Args: []StepArg{
			argRoot, argName("file"),
			{Name: "template", Type: StepTemplate, Required: true, Fixed: true, Summary: "text with {{.name}} for each value"},
			{Name: "values", Type: StepTable, Summary: "what the template names"},
			{Name: "owner", Type: StepAccount, Fixed: true, Summary: "an account; default: root"},
			{Name: "mode", Type: StepText, Fixed: true, Values: []string{"0600", "0640", "0644", "0700", "0750", "0755"}, Summary: "default: 0644"},
		},
	},
	{
		Name: "service.control", Summary: "start, stop, restart, enable or disable a unit of systemd",
		Args: []StepArg{
			{Name: "unit", Type: StepUnit, Required: true, Fixed: true, Summary: "its full name"},
			{Name: "action", Type: StepText, Required: true, Fixed: true, Values: []string{"start", "stop", "restart", "enable", "disable"}, Summary: "what is done"},
		},
	},
	{
		Name: "command.exec_allowlisted", Summary: "run a command profile of the definition",
		Args: []StepArg{
			{Name: "command", Type: StepText, Required: true, Fixed: true, Summary: "the id of the command profile"},
			{Name: "args", Type: StepTable, Summary: "the arguments that the profile's arg_schema has"},
		},
	},
	{Name: "gpu.driver.validate", Summary: "the driver of the GPUs answers", Resolved: true},
	{Name: "gpu.runtime.check", Summary: "driver, runtime and toolkit fit each other", Resolved: true},
	{Name: "gpu.fabric.verify", Summary: "the GPUs reach each other", Resolved: true},
	{Name: "gpu.container_runtime.check", Summary: "containers see the GPUs", Resolved: true},
	{
		Name: "network.fabric.verify", Summary: "the ports of the InfiniBand or RoCE fabric are up and as fast as they should be",
		Args: []StepArg{
			{Name: "ports", Type: StepInteger, Summary: "how many must be up; default: all that the node has"},
			{Name: "rate", Type: StepInteger, Summary: "Gbit/s that each must have; default: any"},
		},
	},
	{
		Name: "health.check", Summary: "a port accepts, a URL answers, a unit is active or a file is there",
		Args: []StepArg{
			{Name: "check", Type: StepText, Required: true, Fixed: true, Values: []string{"tcp", "http", "unit", "file"}, Summary: "what is looked at"},
			{Name: "target", Type: StepText, Required: true, Summary: "address with port, URL, unit or path"},
		},
	},
	{
		Name: "cluster.join", Summary: "make the node a member of a cluster",
		Args: []StepArg{
			argCluster,
			{Name: "credential", Type: StepSecret, Required: true, Values: []string{CredentialClusterJoin}, Summary: "used once; it says where the controller is"},
			{Name: "labels", Type: StepTexts, Summary: "what the cluster knows of the node: features of Slurm, KEY=VALUE of Ray or k8s"},
			{Name: "taints", Since: 3, Type: StepTexts, Summary: "k8s: KEY[=VALUE]:EFFECT each, what keeps pods from the node that do not tolerate it"},
			{Name: "kubelet", Since: 3, Type: StepPath, Summary: "k8s: a file that kubeadm merges into kubelet's configuration, kubeletconfiguration+merge.yaml"},
			{Name: "environment", Type: StepPath, Summary: "of Ray, and needed there: the Python environment that has it"},
		},
	},
	{
		Name: "cluster.verify", Summary: "the cluster itself says that the node is its member, and ready",
		Args: []StepArg{
			argCluster, argClusterName,
			{Name: "labels", Type: StepTexts, Summary: "k8s: labels that the node must have, KEY=VALUE"},
			{Name: "taints", Type: StepTexts, Summary: "k8s: taints that the node must have, KEY[=VALUE]:EFFECT"},
			{Name: "version", Type: StepText, Summary: "k8s: the version that kubelet must have, such as v1.35.4"},
			{Name: "gpus", Type: StepInteger, Summary: "k8s: how many GPUs pods must be able to get, at least (nvidia.com/gpu)"},
		},
	},
	{
		Name: "cluster.leave", Summary: "take the node out of a cluster: no new work, then no record, as the cluster itself says; then no service and no key on the node",
		Args: []StepArg{
			argCluster, argClusterName,
			{Name: "force_after", Type: StepInteger, Summary: "k8s: seconds after which pods are cut off that do not go; default: never"},
		},
	},
	{Name: "host.reboot", Summary: "restart the machine, and go on after it"},
}

// StepKinds returns the table of kinds.
func StepKinds() []StepKind { return slices.Clone(stepKinds) }

// StepKindOf returns the kind of a name.
func StepKindOf(name string) (StepKind, bool) {
	i := slices.IndexFunc(stepKinds, func(k StepKind) bool { return k.Name == name })
	if i < 0 {
		return StepKind{}, false
	}
	return stepKinds[i], true
}

// Arg returns an argument of the kind.
func (k StepKind) Arg(name string) (StepArg, bool) {
	i := slices.IndexFunc(k.Args, func(a StepArg) bool { return a.Name == name })
	if i < 0 {
		return StepArg{}, false
	}
	return k.Args[i], true
}
