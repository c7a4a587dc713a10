package main

import "github.com/spf13/cobra"

func operationCommand(a *app) *cobra.Command {
	return noun("operation", "operations on nodes, what they may do, and what they did", "  hostler operation verify staged.json --trust trust.json",
		operationVerifyCommand(a), operationPolicyCommand(a))
}
