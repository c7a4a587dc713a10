package registry

import (
	"context"
	"encoding/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// OfStep obtains a token for a step credential.mint of an operation's task: a
// taskcatalog.OCIPullCredential as JSON. The token permits a pull from the one repository that steps of
// the signed plan pull from with the credential. The caller must know that the task still belongs to the
// node. Codes: credential_refused, registry_credential_not_found, registry_plain_http, those of
// Client.pull and of the account.
func (p *Pulls) OfStep(ctx context.Context, task broker.Task, step string) (broker.Minted, error) {
	refuse := func(why string) (broker.Minted, error) {
		return broker.Minted{}, broker.Errorf(broker.Forbidden, "credential_refused", "cannot mint a pull token for step %q of task %s: %s",
			taskcatalog.Clean(step, 64), task.ID, why)
	}
	signed, err := p.task(task)
	if err != nil {
		return refuse(err.Error())
	}
	var plan taskcatalog.OperationPlan
	if json.Unmarshal(signed.Params, &plan) != nil {
		return refuse("the task is no operation")
	}
	scope, pulls, ok := plan.Credential(step, taskcatalog.CredentialOCIPull)
	if !ok || len(pulls) == 0 {
		return refuse("the signed plan has no such step, or no step pulls with its credential")
	}
	reference := ""
	for _, pull := range pulls {
		source, isText := pull.With["source"].Literal.(string)
		if !isText || pull.Kind != "artifact.pull_oci" || !taskcatalog.SourceCovers("oci:"+scope, "oci:"+source) {
			return refuse("a step pulls from outside the credential's scope")
		}
		if reference != "" && source != reference {
			return refuse("steps pull from two repositories, and a token is for one (use a step credential.mint for each)")
		}
		reference = source
	}
	host, repository := broker.RegistryOf(reference, false)
	record, err := p.Records.RegistryCredential(ctx, host)
	if err != nil {
		return broker.Minted{}, err
	}
	if record.PlainHTTP {
		return broker.Minted{}, broker.Errorf(broker.Refused, "registry_plain_http",
			"cannot mint a pull token for step %s of task %s: operations pull over TLS, and the credential of registry %s is for plain HTTP", step, task.ID, host)
	}
	return p.token(ctx, record, repository, "pull "+reference)
}
