package main

import "github.com/spf13/cobra"

func operationCommand(a *app) *cobra.Command {
	return noun("operation", "operations on nodes, and what they may do", "  hostler operation policy explain model.artifact.stage --project acme/lab",
		operationPolicyCommand(a))
}
