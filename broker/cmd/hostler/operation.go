package main

import "github.com/spf13/cobra"

func operationCommand(a *app) *cobra.Command {
	return noun("operation", "operations on nodes, what they may do, and what they did",
		"  hostler operation run runtime.readiness.verify@v1 --allocation alc-019c4e6a2f1k7m2q4s6t8w",
		operationRunCommand(a), operationPlanCommand(a), operationListCommand(a), operationShowCommand(a), operationWatchCommand(a),
		operationLogsCommand(a), operationRetryCommand(a), operationCancelCommand(a), operationStatementCommand(a),
		operationVerifyCommand(a), operationPolicyCommand(a))
}
