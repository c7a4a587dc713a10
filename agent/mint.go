package agent

import (
	"context"

	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// mintFor returns a function that asks for secrets of this attempt. A run asks under a single
// request name, so that the broker recognises a repeated request whose answer was lost.
func (a *Agent) mintFor(r *run) func(context.Context, string) ([]byte, error) {
	request, unnamed := wire.NewInstance(a.Rand)
	return func(ctx context.Context, credentialType string) ([]byte, error) {
		if unnamed != nil {
			return nil, unnamed
		}
		return a.mint(ctx, r, request, wire.MintRequest{CredentialType: credentialType})
	}
}

// mintStep returns a function that asks for secrets of the steps of an operation. Each request has a
// name of its own: a secret that has expired is replaced by another. After a restart of the machine the
// network may not be up, and the lease is over until the node has reported progress. Neither is a
// refusal: the function asks again until ctx ends.
func (a *Agent) mintStep(r *run) func(ctx context.Context, step, credentialType string) ([]byte, error) {
	return func(ctx context.Context, step, credentialType string) ([]byte, error) {
		pause := uplink.NewPause()
		for {
			request, err := wire.NewInstance(a.Rand)
			if err != nil {
				return nil, err
			}
			secret, err := a.mint(ctx, r, request, wire.MintRequest{CredentialType: credentialType, StepID: step})
			if err == nil {
				return secret, nil
			}
			wait := pause.After(err)
			refusal, refused := uplink.RefusalOf(err)
			if refused && refusal.Permanent() && refusal.Code != codeLeaseLost {
				return nil, err
			}
			if !refused || refusal.RetryAfter == 0 {
				wait = min(wait, longestPause)
			}
			if sleep(ctx, wait) != nil {
				return nil, err
			}
		}
	}
}

// mint asks for a secret. The string form of the secret is not kept.
func (a *Agent) mint(ctx context.Context, r *run, request string, req wire.MintRequest) ([]byte, error) {
	client, err := a.uplink()
	if err != nil {
		return nil, err
	}
	req.Attempt = int(r.attempt.Load())
	reply, err := client.Mint(ctx, r.task.TaskID, request, req)
	if refusal, ok := uplink.RefusalOf(err); ok {
		return nil, notMinted{refusal}
	}
	if err != nil {
		return nil, err
	}
	return []byte(reply.Secret), nil
}

// notMinted is a refusal of the broker, with its code and its Retry-After.
type notMinted struct{ *uplink.Refusal }

// Unwrap returns the refusal and an error with its code.
func (n notMinted) Unwrap() []error {
	return []error{n.Refusal, &taskcatalog.Error{Code: n.Code, Message: n.Error()}}
}
