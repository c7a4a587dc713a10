package artifactsource

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// life is how long a credential is valid. A transfer that takes longer asks again.
const life = 15 * time.Minute

// Records are the broker's records.
type Records interface {
	SourceCredentials(ctx context.Context) ([]broker.SourceCredential, error)
}

// Mints makes credentials for steps of operations.
type Mints struct {
	Records Records
	Secrets Keeper
	// Signed returns the task in an envelope, once the broker's own signature holds.
	Signed func(envelope []byte) (*taskcatalog.Task, error)
	Now    func() time.Time
}

// kinds gives the kind of sources that a type of credential reads.
var kinds = map[string]string{
	taskcatalog.CredentialS3Read: broker.SourceS3, taskcatalog.CredentialGCSRead: broker.SourceGCS,
	taskcatalog.CredentialHFToken: broker.SourceHuggingFace,
}

// Of makes the credential of a step credential.mint of an operation's task: a
// taskcatalog.BlobCredential as JSON. The caller must know that the task still belongs to the node.
// Codes: credential_refused, source_credential_not_found, and those of the account's secret.
func (m *Mints) Of(ctx context.Context, task broker.Task, credentialType, step string) (broker.Minted, error) {
	refuse := func(code, why string) (broker.Minted, error) {
		return broker.Minted{}, broker.Errorf(broker.Forbidden, code, "cannot mint %s for step %q of task %s: %s",
			taskcatalog.Clean(credentialType, 64), taskcatalog.Clean(step, 64), task.ID, why)
	}
	plan, err := m.plan(task)
	if err != nil {
		return refuse("credential_refused", "the task differs from what this broker signed, or is no operation")
	}
	scope, pulls, ok := plan.Credential(step, credentialType)
	if !ok || kinds[credentialType] == "" {
		return refuse("credential_refused", "the signed plan has no such step for this type of credential")
	}
	sources, ok := sourcesOf(pulls, kinds[credentialType], scope)
	if !ok {
		return refuse("credential_refused", "a step pulls from outside the credential's scope")
	}
	c, ok, err := m.account(ctx, kinds[credentialType]+":"+scope)
	switch {
	case err != nil:
		return broker.Minted{}, err
	case !ok:
		return refuse("source_credential_not_found",
			"no account serves "+kinds[credentialType]+":"+scope+" (an administrator adds one: hostler help source-credential set)")
	}
	secret, err := secretOf(ctx, m.Secrets, c)
	if err != nil {
		return broker.Minted{}, err
	}
	made, err := m.make(ctx, c, secret, sources)
	if err != nil {
		return broker.Minted{}, err
	}
	raw, err := json.Marshal(made)
	return broker.Minted{Secret: string(raw), Expires: made.ExpiresAt, Opens: "read " + strings.Join(sources, ", ") + " with source credential " + c.Name}, err
}

// plan reads the plan of a task from its signed envelope.
func (m *Mints) plan(task broker.Task) (*taskcatalog.OperationPlan, error) {
	signed, err := m.Signed(task.Envelope)
	if err != nil {
		return nil, err
	}
	var plan taskcatalog.OperationPlan
	if signed.TaskID != task.ID || signed.NodeID != task.NodeID || signed.NodeEpoch != task.NodeEpoch || signed.Type != task.Type {
		return nil, broker.Errorf(broker.Forbidden, "credential_refused", "the envelope is of another task")
	}
	return &plan, json.Unmarshal(signed.Params, &plan)
}

// sourcesOf lists the sources that steps pull, each once. ok is false if one of them is of another kind,
// or not within the credential's scope.
func sourcesOf(pulls []taskcatalog.PlannedStep, kind, scope string) (sources []string, ok bool) {
	for _, s := range pulls {
		source, isText := s.With["source"].Literal.(string)
		if !isText || s.With["from"].Literal != kind || !taskcatalog.SourceCovers(kind+":"+scope, kind+":"+source) {
			return nil, false
		}
		if !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	return sources, true
}

// account returns the account for a source: of those that cover the source, the one with the longest
// prefix.
func (m *Mints) account(ctx context.Context, source string) (best broker.SourceCredential, ok bool, err error) {
	all, err := m.Records.SourceCredentials(ctx)
	for _, c := range all {
		if taskcatalog.SourceCovers(c.Source, source) && (!ok || len(c.Source) > len(best.Source)) {
			best, ok = c, true
		}
	}
	return best, ok, err
}

// make makes the credential for the sources.
func (m *Mints) make(ctx context.Context, c broker.SourceCredential, secret string, sources []string) (taskcatalog.BlobCredential, error) {
	now := m.Now()
	made := taskcatalog.BlobCredential{ExpiresAt: now.Add(life).UTC(), URLs: map[string]string{}}
	token := strings.HasPrefix(c.Source, broker.SourceHuggingFace+":")
	if token {
		made.Authorization = "Bearer " + secret
	}
	for _, source := range sources {
		if token {
			made.URLs[source] = resolve(c.Endpoint, source)
			continue
		}
		address, err := sign(ctx, c, secret, source, now, life)
		if err != nil {
			return made, err
		}
		made.URLs[source] = address
	}
	return made, nil
}

// resolve returns the address of a file OWNER/REPOSITORY@REVISION/FILE at a hub. The node holds the form
// of the source against the address.
func resolve(endpoint, source string) string {
	repository, rest, _ := strings.Cut(source, "@")
	revision, file, _ := strings.Cut(rest, "/")
	path := (&url.URL{Path: "/" + repository + "/resolve/" + revision + "/" + file}).EscapedPath()
	return endpoint + path
}
