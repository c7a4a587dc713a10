package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
)

// operationKeyFlags are the keys of a policy of operations as flags.
type operationKeyFlags struct {
	enabled, signature          bool
	concurrency, seconds, bytes int64
	sources, targets            []string
	conditions                  string // name of a file
}

func (k *operationKeyFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&k.enabled, "enabled", true, "whether the operation may run at all")
	f.Int64Var(&k.concurrency, "max-concurrency", 0, "most executions that a project has at the same time, `N`")
	f.Int64Var(&k.seconds, "timeout", 0, "longest time that an execution may take, `SECONDS`")
	f.StringArrayVar(&k.sources, "source", nil, "source that artifacts may come from, `KIND:PREFIX` such as s3:models (may be repeated)")
	f.StringArrayVar(&k.targets, "target-kind", nil, "what it may run on: node, allocation or group, `KIND` (may be repeated)")
	f.BoolVar(&k.signature, "require-signature", false, "whether the signatures of artifacts must be verified")
	f.Int64Var(&k.bytes, "max-artifact-size", 0, "size of the largest artifact, `BYTES`")
	f.StringVar(&k.conditions, "conditions", "", "conditions that must be true: a `FILE` with a JSON list of name, expression and message, or -")
}

// into sets the keys whose flags were given. Codes: bad_usage, operation_policy_invalid.
func (k *operationKeyFlags) into(a *app, c *cobra.Command, o *api.OperationOverlay) error {
	given := c.Flags().Changed
	pick(given("enabled"), &o.Enabled, &k.enabled)
	pick(given("require-signature"), &o.RequireSignatureVerification, &k.signature)
	pick(given("max-concurrency"), &o.MaxConcurrency, &k.concurrency)
	pick(given("timeout"), &o.TimeoutSeconds, &k.seconds)
	pick(given("max-artifact-size"), &o.MaxArtifactSizeBytes, &k.bytes)
	if given("source") {
		o.AllowedArtifactSources = namesOf(k.sources)
	}
	if given("target-kind") {
		o.AllowedTargetKinds = namesOf(k.targets)
	}
	if given("conditions") {
		raw, err := a.readBounded(k.conditions)
		if err != nil {
			return err
		}
		if err := taskcatalog.DecodeStrict(raw, &o.Conditions); err != nil {
			return broker.Errorf(broker.Invalid, "operation_policy_invalid",
				"cannot use %s, it must be a JSON list of conditions with name, expression and message: %v", k.conditions, err)
		}
	}
	for _, key := range broker.OperationKeys() {
		if broker.OperationOverlay(*o).Value(key) != nil {
			return nil
		}
	}
	return usage("no key is given (use --enabled, --source, --target-kind, --timeout, --max-concurrency, --max-artifact-size, " +
		"--require-signature or --conditions; hostler operation policy remove takes a policy away)")
}

func pick[T any](given bool, to **T, from *T) {
	if given {
		*to = from
	}
}

// namesOf are the names of a list; "" alone is an empty list.
func namesOf(list []string) []string {
	if slices.Equal(list, []string{""}) {
		return []string{}
	}
	return list
}
