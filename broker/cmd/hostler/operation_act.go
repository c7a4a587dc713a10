package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// operationVerb is a command that acts on an operation.
func (a *app) operationVerb(
	c *cobra.Command,
	ofProject func(r *client.Client, ctx context.Context, project, id, reason string) (*api.Operation, error),
	ofAny func(r *client.Client, ctx context.Context, id, reason string) (*api.PlatformOperation, error),
) *cobra.Command {
	var project, reason string
	c.Args = exactly("ID")
	c.RunE = func(c *cobra.Command, args []string) error {
		remote, err := a.connect()
		if err != nil {
			return err
		}
		if project, err = ownProject(c.Context(), remote, project); err != nil {
			return err
		}
		if project != "" {
			v, err := ofProject(remote, c.Context(), project, args[0], reason)
			if err != nil {
				return err
			}
			return a.showOperation(tenantsOperation(v))
		}
		if err := needReason(reason); err != nil {
			return err
		}
		v, err := ofAny(remote, c.Context(), args[0], reason)
		if err != nil {
			return err
		}
		return a.showOperation(platformsOperation(v))
	}
	operationProjectFlag(c, &project)
	reasonFlag(c, &reason)
	return c
}

func operationCancelCommand(a *app) *cobra.Command {
	return a.operationVerb(&cobra.Command{
		Use: "cancel ID", Short: "end an operation",
		Long: `Ask for the end of an operation. Its nodes stop between or in their steps and say so;
until then the operation is canceling. What a step has done stays. One that has ended
stays as it is. A project_member cancels what the same token began; all else needs a
project_admin, or an operator with a reason.`,
		Example: "  hostler operation cancel op-019c4e6a2f1k7m2q4s6t8w --reason 'wrong model'",
	}, (*client.Client).CancelProjectOperation, (*client.Client).CancelOperation)
}

func operationRetryCommand(a *app) *cobra.Command {
	return a.operationVerb(&cobra.Command{
		Use: "retry ID", Short: "try a failed or canceled operation again",
		Long: `Try an operation again with the same plan. Each node goes on from its first step that is
not done. The target must still be the same. A project_member retries what the same
token began; all else needs a project_admin, or an operator with a reason.`,
		Example: "  hostler operation retry op-019c4e6a2f1k7m2q4s6t8w --reason 'cable replaced'",
	}, (*client.Client).RetryProjectOperation, (*client.Client).RetryOperation)
}
