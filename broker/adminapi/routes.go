package adminapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
)

const (
	get  = http.MethodGet
	post = http.MethodPost
	put  = http.MethodPut
	edit = http.MethodPatch
	drop = http.MethodDelete
)

const (
	tenantAdmin   = broker.RoleTenantAdmin
	projectAdmin  = broker.RoleProjectAdmin
	projectMember = broker.RoleProjectMember
	projectViewer = broker.RoleProjectViewer
)

// routes is the index of the package: one line per route.
var routes = []route{
	{get, "/status", viewer, "show-status", "show the system at a glance", jsonRoute((*API).status)},
	{get, "/events", viewer, "follow-events", "follow events, as server-sent events", streams(api.EventStream, (*API).followEvents)},
	{get, "/freeze", viewer, "show-freeze", "show what is frozen or unreachable", jsonRoute((*API).freezeStatus)},
	{post, "/freeze", operator, "freeze", "freeze a site, or all sites", jsonRoute((*API).freeze)},
	{post, "/unfreeze", operator, "unfreeze", "lift a freeze", jsonRoute((*API).unfreeze)},
	{get, "/expiry", viewer, "list-expiry", "list keys, certificates, tokens and logins of the broker that expire, and how to renew them", jsonRoute((*API).listExpiry)},
	{get, "/whoami", viewer.or(projectViewer, atOwnPlace), "show-token", "show the token in use", jsonRoute((*API).whoami)},
	{get, "/roots", viewer.or(projectViewer, atOwnPlace), "list-roots", "list the root certificates in force, by which callers know the broker", jsonRoute((*API).listRoots)},

	{get, "/capacity", viewer, "show-capacity", "count nodes and GPUs by site, SKU and availability", jsonRoute((*API).capacity)},
	{get, "/find", viewer, "find", "find anything by a serial number, MAC, UUID, MAAS id, hostname, IP address or id", jsonRoute((*API).find)},
	{get, "/nodes", viewer, "list-nodes", "list nodes", jsonRoute((*API).listNodes)},
	{post, "/nodes", operator, "create-node", "create a node", jsonRoute((*API).createNode)},
	{get, "/nodes/{node}", viewer, "show-node", "show a node", jsonRoute((*API).showNode)},
	{put, "/nodes/{node}/labels", operator, "label-node", "label a node", jsonRoute((*API).labelNode)},
	{edit, "/nodes/{node}/place", operator, "place-node", "change where a node stands", jsonRoute((*API).placeNode)},
	{put, "/node-places", operator, "place-nodes", "change where many nodes stand, all or none", jsonRoute((*API).placeNodes)},
	{post, "/nodes/{node}/actions/{action}", operator, "act-on-node", "drain, resume, quarantine, activate, retire or remove a node", jsonRoute((*API).actOnNode)},
	{get, "/maintenances", viewer, "list-maintenances", "list maintenances of nodes", jsonRoute((*API).listMaintenances)},
	{post, "/maintenances", operator, "create-maintenance", "open or plan a maintenance of a node", creates(jsonRoute((*API).createMaintenance))},
	{get, "/maintenances/{maintenance}", viewer, "show-maintenance", "show a maintenance with its notes", jsonRoute((*API).showMaintenance)},
	{post, "/maintenances/{maintenance}/notes", operator, "note-maintenance", "add a note to a maintenance", jsonRoute((*API).noteMaintenance)},
	{post, "/maintenances/{maintenance}/close", operator, "close-maintenance", "close an open maintenance, or cancel a planned one", jsonRoute((*API).closeMaintenance)},
	{get, "/repairs", viewer, "list-repairs", "list repairs of machines, by part", jsonRoute((*API).listRepairs)},
	{post, "/repairs", operator, "add-repairs", "record repairs, all or none", jsonRoute((*API).addRepairs)},
	{post, "/host-replacements", operator, "replace-host", "record that a machine took the place of another one", jsonRoute((*API).replaceHost)},
	{get, "/nodes/{node}/facts", viewer, "show-facts", "show a node's hardware facts", jsonRoute((*API).showFacts)},
	{get, "/nodes/{node}/devices", viewer, "list-devices", "list a node's expected and reported devices", jsonRoute((*API).listDevices)},
	{post, "/nodes/{node}/devices/accept", operator, "accept-devices", "accept replaced devices of a node", jsonRoute((*API).acceptDevices)},
	{get, "/nodes/{node}/timeline", viewer, "show-timeline", "show a node's history", jsonRoute((*API).timeline)},
	{post, "/nodes/{node}/token", operator, "issue-token", "issue a new enrolment token for a node", jsonRoute((*API).issueToken)},
	{post, "/nodes/{node}/token/extend", operator, "extend-token", "extend a node's enrolment token", jsonRoute((*API).extendToken)},
	{get, "/nodes/{node}/certificates", viewer, "list-node-certificates", "list a node's certificates", jsonRoute((*API).listNodeCertificates)},
	{post, "/nodes/{node}/certificates/{serial}/deny", admin, "deny-node-certificate", "deny a certificate of a node", jsonRoute((*API).denyNodeCertificate)},
	{put, "/nodes/{node}/credentials", admin, "set-node-credentials", "store a node's own credentials, such as its MAAS token", jsonRoute((*API).setCredentials)},
	{get, "/nodes/{node}/baseline", viewer, "show-baseline", "show a node's baseline", jsonRoute((*API).showBaseline)},
	{get, "/nodes/{node}/baseline/diff", viewer, "diff-baseline", "compare a node's baseline in force with the newest candidate", jsonRoute((*API).diffBaseline)},
	{post, "/nodes/{node}/baseline/retake", operator, "retake-baseline", "take a new baseline of a node, for review", jsonRoute((*API).retakeBaseline)},
	{post, "/nodes/{node}/baseline/accept", operator, "accept-baseline", "accept a candidate baseline", jsonRoute((*API).acceptBaseline)},
	{get, "/nodes/{node}/archives", viewer, "list-archives", "list a node's stored diagnostics", jsonRoute((*API).listArchives)},
	{post, "/nodes/{node}/tasks", operator, "enqueue-task", "enqueue a task on a node", jsonRoute((*API).enqueueTask)},

	{get, "/tasks", viewer, "list-tasks", "list tasks", jsonRoute((*API).listTasks)},
	{get, "/tasks/{task}", viewer, "show-task", "show a task, or wait for its end", jsonRoute((*API).showTask)},
	{post, "/tasks/{task}/cancel", operator, "cancel-task", "cancel a task", jsonRoute((*API).cancelTask)},
	{post, "/tasks/{task}/probe", operator, "probe-task", "ask the node for the outcome of a task", jsonRoute((*API).probeTask)},
	{post, "/tasks/{task}/recover", operator, "recover-task", "run a task again whose outcome is unknown", jsonRoute((*API).recoverTask)},
	{get, "/tasks/{task}/evidence", viewer, "show-evidence", "show a task's evidence", jsonRoute((*API).showEvidence)},
	{get, "/tasks/{task}/archive", operator, "show-archive", "get the archive that a task collected", jsonRoute((*API).showArchive)},
	{get, "/task-types", viewer, "list-task-types", "list task types", jsonRoute((*API).listTaskTypes)},
	{get, "/task-types/{type}", viewer, "describe-task-type", "describe a task type", jsonRoute((*API).describeTaskType)},

	{get, "/tokens", admin, "list-tokens", "list operator tokens", jsonRoute((*API).listTokens)},
	{post, "/tokens", admin, "create-token", "create an operator token", jsonRoute((*API).createToken)},
	{post, "/tokens/{name}/revoke", admin, "revoke-token", "revoke an operator token", jsonRoute((*API).revokeToken)},

	{get, "/audit", viewer, "list-audit", "list audit rows", jsonRoute((*API).listAudit)},
	{get, "/audit/verify", viewer, "verify-audit", "verify the seals of the audit log", jsonRoute((*API).verifyAudit)},
	{get, "/audit/export", viewer, "export-audit", "export audit rows, one JSON object a line", streams(linesType, (*API).exportAudit)},

	{get, "/trust", viewer, "show-trust", "show the trust bundle and the nodes that have not confirmed it", jsonRoute((*API).showTrust)},
	{post, "/trust/rotate", admin, "rotate-trust", "begin a rotation of a key", jsonRoute((*API).rotateTrust)},
	{post, "/trust/finish", admin, "finish-trust", "end a rotation", jsonRoute((*API).finishTrust)},
	{post, "/trust/release-keys", admin, "add-release-key", "add a release key to the trust bundle", jsonRoute((*API).addReleaseKey)},
	{post, "/trust/release-keys/{key}/retire", admin, "retire-release-key", "retire a release key", jsonRoute((*API).retireReleaseKey)},

	{get, "/resolver/sets", viewer, "list-resolver-sets", "list sets of resolver profiles", jsonRoute((*API).listResolverSets)},
	{post, "/resolver/sets", admin, "push-resolver-set", "store a set of resolver profiles", jsonRoute((*API).pushResolverSet)},
	{get, "/resolver/wants", viewer, "list-resolver-wants", "list assignments of sets to nodes", jsonRoute((*API).listResolverWants)},
	{post, "/resolver/wants", admin, "want-resolver-set", "assign a set to nodes", jsonRoute((*API).wantResolverSet)},
	{get, "/nodes/{node}/resolver", viewer, "show-resolver", "show a node's resolver profiles", jsonRoute((*API).showResolver)},
	{get, "/nodes/{node}/resolver/explain", viewer, "explain-resolver", "explain how a step resolves on a node", jsonRoute((*API).explainResolver)},
	{post, "/nodes/{node}/resolver/rollback", admin, "roll-back-resolver", "roll a node back to its earlier set, or to another one", jsonRoute((*API).rollBackResolver)},

	{get, "/operation-definitions", viewer, "list-operation-definitions", "list definitions of operations", jsonRoute((*API).listOperationDefinitions)},
	{post, "/operation-definitions", admin, "push-operation-definition", "store the definition of an operation, as a draft", jsonRoute((*API).pushOperationDefinition)},
	{get, "/operation-definitions/{definition}", viewer, "show-operation-definition", "show a definition of an operation, with its content", jsonRoute((*API).showOperationDefinition)},
	{edit, "/operation-definitions/{definition}", admin, "activate-operation-definition", "make a definition active, whose content then never changes", jsonRoute((*API).activateOperationDefinition)},
	{post, "/operation-definitions/{definition}/deprecate", admin, "deprecate-operation-definition", "let a definition run with a warning", jsonRoute((*API).deprecateOperationDefinition)},
	{post, "/operation-definitions/{definition}/retire", admin, "retire-operation-definition", "end a definition, which then runs no more", jsonRoute((*API).retireOperationDefinition)},

	{get, "/maas-sites", viewer, "list-sites", "list MAAS sites", jsonRoute((*API).listSites)},
	{post, "/maas-sites", admin, "create-site", "create a MAAS site", jsonRoute((*API).createSite)},
	{get, "/maas-sites/{site}", viewer, "show-site", "show a MAAS site", jsonRoute((*API).showSite)},
	{edit, "/maas-sites/{site}", admin, "update-site", "change, disable or enable a MAAS site", jsonRoute((*API).updateSite)},
	{drop, "/maas-sites/{site}", admin, "disable-site", "disable a MAAS site", jsonRoute((*API).disableSite)},
	{get, "/maas-sites/{site}/profiles", viewer, "list-site-profiles", "list a site's profiles", jsonRoute((*API).listProfiles)},
	{post, "/maas-sites/{site}/profiles", admin, "create-site-profile", "add a profile to a site", jsonRoute((*API).createProfile)},
	{get, "/maas-sites/{site}/profiles/{profile}", viewer, "show-site-profile", "show a site's profile", jsonRoute((*API).showProfile)},
	{edit, "/maas-sites/{site}/profiles/{profile}", admin, "update-site-profile", "change a site's profile", jsonRoute((*API).updateProfile)},
	{post, "/maas-sites/{site}/credentials", admin, "set-site-credentials", "store a site's credentials, after MAAS accepted the token", jsonRoute((*API).setSiteCredentials)},
	{post, "/maas-sites/{site}/probe", operator, "probe-site", "check what a site needs", jsonRoute((*API).probeSite)},
	{get, "/maas-sites/{site}/power-overrides", viewer, "list-power-overrides", "list a site's power credential overrides", jsonRoute((*API).listOverrides)},
	{post, "/maas-sites/{site}/power-overrides", admin, "put-power-override", "set power credentials for a machine, instead of its site's", jsonRoute((*API).putOverride)},
	{edit, "/maas-sites/{site}/power-overrides/{override}", admin, "update-power-override", "disable or enable a power credential override", jsonRoute((*API).changeOverride)},
	{drop, "/maas-sites/{site}/power-overrides/{override}", admin, "remove-power-override", "remove a power credential override and its secret", jsonRoute((*API).removeOverride)},
	{get, "/maas-sites/{site}/roce-assignments", viewer, "list-roce", "list a site's RoCE assignments", jsonRoute((*API).listRoCE)},
	{post, "/maas-sites/{site}/roce-assignments", admin, "put-roce", "store a list of RoCE assignments, all or none", jsonRoute((*API).putRoCE)},
	{drop, "/maas-sites/{site}/roce-assignments/{assignment}", admin, "remove-roce", "remove one RoCE assignment", jsonRoute((*API).removeRoCE)},

	{get, "/skus", viewer, "list-skus", "list SKUs", jsonRoute((*API).listSKUs)},
	{post, "/skus", admin, "create-sku", "create a SKU", jsonRoute((*API).createSKU)},
	{get, "/skus/{sku}", viewer, "show-sku", "show a SKU", jsonRoute((*API).showSKU)},
	{edit, "/skus/{sku}", admin, "update-sku", "change a SKU", jsonRoute((*API).updateSKU)},

	{get, "/organisations", viewer.or(projectViewer, atOwnPlace), "list-organisations", "list organisations", jsonRoute((*API).listOrganisations)},
	{post, "/organisations", admin, "create-organisation", "create an organisation", jsonRoute((*API).createOrganisation)},
	{get, "/organisations/{organisation}", viewer.or(projectViewer, atOrganisation), "show-organisation", "show an organisation", jsonRoute((*API).showOrganisation)},
	{post, "/organisations/{organisation}/end", admin, "end-organisation", "end an organisation without projects and members", jsonRoute((*API).endOrganisation)},
	{get, "/organisations/{organisation}/members", viewer.or(tenantAdmin, atOrganisation), "list-organisation-members", "list the members of an organisation and of its projects", jsonRoute((*API).listOrganisationMembers)},
	{post, "/organisations/{organisation}/members", admin.or(tenantAdmin, atOrganisation), "add-organisation-member", "add a member to an organisation", jsonRoute((*API).addOrganisationMember)},
	{post, "/organisations/{organisation}/members/deny", admin.or(tenantAdmin, atOrganisation), "deny-organisation-member", "deny a person who signs in, in an organisation and its projects", jsonRoute((*API).denyOrganisationMember)},
	{post, "/organisations/{organisation}/projects", admin.or(tenantAdmin, atOrganisation), "create-project", "create a project of an organisation", jsonRoute((*API).createProject)},
	{get, "/projects", viewer.or(projectViewer, atOwnPlace), "list-projects", "list projects", jsonRoute((*API).listProjects)},
	{get, "/projects/{project}", viewer.or(projectViewer, atProject), "show-project", "show a project", jsonRoute((*API).showProject)},
	{edit, "/projects/{project}", admin, "update-project", "change which nodes a project is given", jsonRoute((*API).updateProject)},
	{edit, "/projects/{project}/operation-bindings", admin.or(projectAdmin, atProject), "bind-project-operations", "change which operations run by themselves on a project's allocations", jsonRoute((*API).bindProject)},
	{post, "/projects/{project}/end", admin.or(tenantAdmin, atProject), "end-project", "end a project without members", jsonRoute((*API).endProject)},
	{get, "/projects/{project}/members", viewer.or(projectViewer, atProject), "list-project-members", "list the members of a project", jsonRoute((*API).listProjectMembers)},
	{post, "/projects/{project}/members", admin.or(projectAdmin, atProject), "add-project-member", "add a member to a project", jsonRoute((*API).addProjectMember)},
	{post, "/projects/{project}/members/deny", admin.or(projectAdmin, atProject), "deny-project-member", "deny a person who signs in, in a project", jsonRoute((*API).denyProjectMember)},
	{get, "/projects/{project}/quotas", viewer.or(projectViewer, atProject), "list-quotas", "list a project's quotas", jsonRoute((*API).listQuotas)},
	{put, "/projects/{project}/quotas/{sku}", admin, "set-quota", "set what a project may have of a SKU at the same time", jsonRoute((*API).setQuota)},
	{get, "/operation-policies", viewer, "list-operation-policies", "list the global policies of operations", jsonRoute((*API).listGlobalOperationPolicies)},
	{get, "/operation-policies/{operation_type}", viewer, "show-operation-policy", "show the global policy for an operation", jsonRoute((*API).showGlobalOperationPolicy)},
	{put, "/operation-policies/{operation_type}", admin, "set-operation-policy", "replace the global policy for an operation", jsonRoute((*API).setGlobalOperationPolicy)},
	{drop, "/operation-policies/{operation_type}", admin, "remove-operation-policy", "remove the global policy for an operation", jsonRoute((*API).removeGlobalOperationPolicy)},
	{get, "/organisations/{organisation}/operation-policies", viewer.or(projectViewer, atOrganisation), "list-organisation-operation-policies", "list an organisation's policies of operations", jsonRoute((*API).listOrganisationOperationPolicies)},
	{get, "/organisations/{organisation}/operation-policies/{operation_type}", viewer.or(projectViewer, atOrganisation), "show-organisation-operation-policy", "show an organisation's policy for an operation", jsonRoute((*API).showOrganisationOperationPolicy)},
	{put, "/organisations/{organisation}/operation-policies/{operation_type}", admin.or(tenantAdmin, atOrganisation), "set-organisation-operation-policy", "replace an organisation's policy for an operation", jsonRoute((*API).setOrganisationOperationPolicy)},
	{drop, "/organisations/{organisation}/operation-policies/{operation_type}", admin.or(tenantAdmin, atOrganisation), "remove-organisation-operation-policy", "remove an organisation's policy for an operation", jsonRoute((*API).removeOrganisationOperationPolicy)},
	{get, "/projects/{project}/operation-policies", viewer.or(projectViewer, atProject), "list-project-operation-policies", "list a project's policies of operations", jsonRoute((*API).listProjectOperationPolicies)},
	{get, "/projects/{project}/operation-policies/{operation_type}", viewer.or(projectViewer, atProject), "show-project-operation-policy", "show a project's policy for an operation", jsonRoute((*API).showProjectOperationPolicy)},
	{put, "/projects/{project}/operation-policies/{operation_type}", admin.or(projectAdmin, atProject), "set-project-operation-policy", "replace a project's policy for an operation", jsonRoute((*API).setProjectOperationPolicy)},
	{drop, "/projects/{project}/operation-policies/{operation_type}", admin.or(tenantAdmin, atProject), "remove-project-operation-policy", "remove a project's policy for an operation", jsonRoute((*API).removeProjectOperationPolicy)},
	{get, "/projects/{project}/operation-policies/{operation_type}/effective", viewer.or(projectViewer, atProject), "explain-operation-policy", "show what all levels together permit of an operation, and which level decided", jsonRoute((*API).explainProjectOperationPolicy)},
	{get, "/projects/{project}/reservations", viewer.or(projectViewer, atProject), "list-project-reservations", "list the nodes reserved for a project", jsonRoute((*API).listProjectReservations)},
	{get, "/projects/{project}/reservations/{reservation}", viewer.or(projectViewer, atProject), "show-project-reservation", "show a reservation of a project", jsonRoute((*API).showProjectReservation)},
	{get, "/reservations", viewer, "list-reservations", "list the nodes reserved for projects", jsonRoute((*API).listReservations)},
	{post, "/reservations", admin, "create-reservation", "reserve nodes for a project", creates(jsonRoute((*API).createReservation))},
	{get, "/reservations/{reservation}", viewer, "show-reservation", "show a reservation of any project", jsonRoute((*API).showReservation)},
	{post, "/reservations/{reservation}/end", admin, "end-reservation", "end a reservation", jsonRoute((*API).endReservation)},
	{get, "/projects/{project}/allocations", viewer.or(projectViewer, atProject), "list-allocations", "list a project's allocations", jsonRoute((*API).listAllocations)},
	{post, "/projects/{project}/allocations", admin.or(projectMember, atProject), "create-allocation", "ask for nodes", creates(jsonRoute((*API).createAllocation))},
	{get, "/projects/{project}/allocations/{allocation}", viewer.or(projectViewer, atProject), "show-allocation", "show an allocation", jsonRoute((*API).showAllocation)},
	{get, "/projects/{project}/allocations/{allocation}/timeline", viewer.or(projectViewer, atProject), "show-allocation-timeline", "list the statuses that an allocation reached, and who moved it", jsonRoute((*API).allocationTimeline)},
	{get, "/projects/{project}/allocations/{allocation}/certificates", viewer.or(projectViewer, atProject), "list-allocation-certificates", "list the certificates of the turnovers that ended an allocation", jsonRoute((*API).listAllocationCertificates)},
	{get, "/projects/{project}/allocations/{allocation}/certificates/{certificate}", viewer.or(projectViewer, atProject), "show-allocation-receipt", "show the tenant's receipt of a certificate, with its file", jsonRoute((*API).showAllocationReceipt)},
	{post, "/projects/{project}/allocations/{allocation}/release", admin.or(projectMember, atProject), "release-allocation", "release an allocation, or try again to release it", jsonRoute((*API).releaseAllocation)},
	{post, "/projects/{project}/allocations/{allocation}/terminals", admin.or(projectMember, atProject), "open-project-terminal", "open a terminal session on a node of an active allocation, as a member of its project", creates(jsonRoute((*API).openProjectTerminal))},
	{get, "/projects/{project}/terminals", operator.or(projectViewer, atProject), "list-project-terminals", "list the terminal sessions that members opened for a project", jsonRoute((*API).listProjectTerminals)},
	{get, "/projects/{project}/terminals/{terminal}", operator.or(projectViewer, atProject), "show-project-terminal", "show a terminal session of a project", jsonRoute((*API).showProjectTerminal)},
	{post, "/projects/{project}/terminals/{terminal}/close", operator.or(projectMember, atProject), "close-project-terminal", "end a terminal session of a project", jsonRoute((*API).closeProjectTerminal)},
	{post, "/projects/{project}/terminals/{terminal}/tickets", operator.or(projectMember, atProject), "issue-project-terminal-ticket", "get a ticket for a terminal session of a project", jsonRoute((*API).issueProjectTerminalTicket)},
	{get, "/projects/{project}/terminals/{terminal}/attach", operator.or(projectMember, atProject), "attach-project-terminal", "join a terminal session of a project, over a WebSocket", streams(webSocket, (*API).attachProjectTerminal)},
	{get, "/allocations", viewer, "list-all-allocations", "list the allocations of all projects, with their nodes", jsonRoute((*API).listAllAllocations)},
	{get, "/allocations/explain", viewer, "explain-allocation", "count the nodes of a SKU that fit a request, and the others by reason", jsonRoute((*API).explainAllocation)},
	{get, "/allocations/{allocation}", viewer, "show-any-allocation", "show an allocation of any project, with its nodes", jsonRoute((*API).showAnyAllocation)},
	{post, "/allocations/{allocation}/force-release", admin, "force-release-allocation", "release an allocation of any project", jsonRoute((*API).forceRelease)},
	{get, "/projects/{project}/operations", viewer.or(projectViewer, atProject), "list-project-operations", "list a project's operations", jsonRoute((*API).listProjectOperations)},
	{post, "/projects/{project}/operations", admin.or(projectMember, atProject), "create-project-operation", "begin an operation on an allocation of a project, or on a group of them", creates(jsonRoute((*API).createOperation))},
	{post, "/projects/{project}/operations/plan", admin.or(projectMember, atProject), "plan-project-operation", "show the plan that an operation on an allocation or a group would have", jsonRoute((*API).planOperation)},
	{get, "/projects/{project}/operations/{operation}", viewer.or(projectViewer, atProject), "show-project-operation", "show an operation of a project", jsonRoute((*API).showProjectOperation)},
	{get, "/projects/{project}/operations/{operation}/logs", viewer.or(projectViewer, atProject), "list-project-operation-logs", "list the attempts of the steps of an operation of a project", followable((*API).listProjectOperationLogs, (*API).followProjectOperation)},
	{get, "/projects/{project}/operations/{operation}/statement", viewer.or(projectViewer, atProject), "get-project-operation-statement", "get the signed statement of an attempt of an operation of a project, without nodes", jsonRoute((*API).projectOperationStatement)},
	{post, "/projects/{project}/operations/{operation}/cancel", admin.or(projectMember, atProject), "cancel-project-operation", "cancel an operation of a project: a member those that it began itself", jsonRoute((*API).cancelProjectOperation)},
	{post, "/projects/{project}/operations/{operation}/retry", admin.or(projectMember, atProject), "retry-project-operation", "try an operation of a project again, from its first step that is not done: a member those that it began itself", jsonRoute((*API).retryProjectOperation)},
	{get, "/operations", viewer, "list-operations", "list the operations of the platform and of all projects", jsonRoute((*API).listOperations)},
	{post, "/operations", operator, "create-operation", "begin an operation on a node, or on several, that no allocation holds", creates(jsonRoute((*API).createPlatformOperation))},
	{post, "/operations/plan", operator, "plan-operation", "show the plan that an operation on nodes would have, and which are passed over", jsonRoute((*API).planPlatformOperation)},
	{get, "/operations/{operation}", viewer, "show-operation", "show an operation of the platform or of any project", jsonRoute((*API).showOperation)},
	{get, "/operations/{operation}/logs", viewer, "list-operation-logs", "list the attempts of the steps of an operation, with what the nodes said", followable((*API).listOperationLogs, (*API).followOperation)},
	{get, "/operations/{operation}/statement", viewer, "get-operation-statement", "get the signed statement of an attempt of an operation", jsonRoute((*API).operationStatement)},
	{post, "/operations/{operation}/cancel", operator, "cancel-operation", "cancel an operation", jsonRoute((*API).cancelOperation)},
	{post, "/operations/{operation}/retry", operator, "retry-operation", "try an operation again, from its first step that is not done", jsonRoute((*API).retryOperation)},
	{get, "/projects/{project}/events", viewer.or(projectViewer, atProject), "follow-project-events", "follow the events of a project's allocations and operations, as server-sent events", streams(api.EventStream, (*API).followProjectEvents)},
	{get, "/projects/{project}/webhooks", viewer.or(projectViewer, atProject), "list-webhooks", "list a project's webhooks", jsonRoute((*API).listWebhooks)},
	{post, "/projects/{project}/webhooks", admin.or(projectAdmin, atProject), "create-webhook", "register an endpoint for a project's events", creates(jsonRoute((*API).createWebhook))},
	{get, "/projects/{project}/webhooks/{webhook}", viewer.or(projectViewer, atProject), "show-webhook", "show a webhook", jsonRoute((*API).showWebhook)},
	{drop, "/projects/{project}/webhooks/{webhook}", admin.or(projectAdmin, atProject), "delete-webhook", "delete a webhook and its signing key", jsonRoute((*API).deleteWebhook)},
	{post, "/projects/{project}/webhooks/{webhook}/test", admin.or(projectAdmin, atProject), "test-webhook", "send a test to a webhook's endpoint", jsonRoute((*API).testWebhook)},
	{post, "/projects/{project}/webhooks/{webhook}/enable", admin.or(projectAdmin, atProject), "enable-webhook", "let a disabled webhook go on", jsonRoute((*API).enableWebhook)},
	{post, "/projects/{project}/webhooks/{webhook}/rotate-secret", admin.or(projectAdmin, atProject), "rotate-webhook-secret", "make a new signing key of a webhook", jsonRoute((*API).rotateWebhookSecret)},
	{get, "/projects/{project}/usage", viewer.or(projectViewer, atProject), "show-project-usage", "show what a project has used within a period", jsonRoute((*API).projectUsage)},
	{get, "/usage", viewer, "show-usage", "show what all projects have used within a period", jsonRoute((*API).allUsage)},
	{get, "/members/{member}", viewer.or(projectViewer, atMember), "show-member", "show a member", jsonRoute((*API).showMember)},
	{post, "/members/{member}/end", admin.or(projectAdmin, atMember), "end-member", "end a member, with the member's keys", jsonRoute((*API).endMember)},
	{post, "/members/{member}/allow", admin.or(projectAdmin, atMember), "allow-member", "lift the denial of a person who signs in", jsonRoute((*API).allowMember)},
	{get, "/members/{member}/keys", viewer.or(projectViewer, atMember), "list-ssh-keys", "list a member's SSH keys", jsonRoute((*API).listSSHKeys)},
	{post, "/members/{member}/keys", admin.or(projectMember, atMember), "add-ssh-key", "add an SSH key of a member", jsonRoute((*API).addSSHKey)},
	{drop, "/members/{member}/keys/{key}", admin.or(projectMember, atMember), "remove-ssh-key", "remove an SSH key of a member", jsonRoute((*API).endSSHKey)},

	{get, "/runs", viewer, "list-runs", "list runs of all kinds", jsonRoute((*API).listRuns)},
	{get, "/runs/{run}", viewer, "show-run", "show a run of any kind, its stages and its events", jsonRoute((*API).showRun)},
	{post, "/runs/{run}/{action}", operator, "act-on-run", "retry, resume, rerun, restart, cancel, adopt or stop a run", jsonRoute((*API).actOnRun)},

	{get, "/onboardings", viewer, "list-onboardings", "list onboardings", jsonRoute((*API).listOnboardings)},
	{post, "/onboardings", operator, "start-onboarding", "onboard a machine from its BMC to an active node", jsonRoute((*API).startOnboarding)},
	{post, "/onboardings/batch", operator, "start-onboarding-batch", "onboard many machines", jsonRoute((*API).startBatch)},
	{post, "/onboardings/batch/{batch}/retry", operator, "retry-onboarding-batch", "retry the failed runs of a batch", jsonRoute((*API).retryBatch)},
	{post, "/onboardings/plan", viewer, "plan-onboarding", "plan onboardings without starting them", jsonRoute((*API).planOnboarding)},
	{post, "/adoptions", operator, "start-adoption", "adopt a machine that is deployed already", jsonRoute((*API).startAdoption)},
	{post, "/adoptions/batch", operator, "start-adoption-batch", "adopt many machines that are deployed already", jsonRoute((*API).startAdoptions)},
	{post, "/adoptions/plan", viewer, "plan-adoption", "plan adoptions without starting them", jsonRoute((*API).planAdoption)},
	{get, "/onboardings/{onboarding}", viewer, "show-onboarding", "show an onboarding, its stages and its events", jsonRoute((*API).showOnboarding)},
	{post, "/onboardings/{onboarding}/{action}", operator, "act-on-onboarding", "retry, resume, rerun, restart, cancel, adopt or stop an onboarding", jsonRoute((*API).actOnOnboarding)},

	{post, "/nodes/{node}/decommission", operator, "start-decommission", "turn a node over between two tenants", jsonRoute((*API).startDecommission)},
	{post, "/nodes/{node}/decommission/plan", viewer, "plan-decommission", "plan a turnover without starting it, with the tenants concerned", jsonRoute((*API).planDecommission)},
	{post, "/nodes/{node}/storage-cleanup", operator, "start-storage-cleanup", "clean a node's storage and check it", jsonRoute((*API).startStorageCleanup)},
	{post, "/nodes/{node}/storage-cleanup/plan", viewer, "plan-storage-cleanup", "plan a cleanup of storage without starting it, with the tenants concerned", jsonRoute((*API).planStorageCleanup)},
	{get, "/decommissions", viewer, "list-decommissions", "list turnovers", jsonRoute((*API).listDecommissions)},
	{post, "/decommissions/batch", operator, "start-decommission-batch", "turn many nodes over between two tenants", jsonRoute((*API).startDecommissions)},
	{post, "/decommissions/batch/{batch}/retry", operator, "retry-decommission-batch", "retry the failed runs of a batch", jsonRoute((*API).retryDecommissions)},
	{post, "/decommissions/plan", viewer, "plan-decommission-batch", "plan a batch of turnovers without starting it, with the tenants concerned", jsonRoute((*API).planDecommissions)},
	{get, "/decommissions/figures", viewer, "show-turnover-figures", "show what turnovers cost", jsonRoute((*API).turnoverFigures)},
	{get, "/decommissions/{decommission}", viewer, "show-decommission", "show a turnover, its stages and its events", jsonRoute((*API).showDecommission)},
	{post, "/decommissions/{decommission}/accept-downgrade", admin, "accept-downgrade", "accept a downgrade of a device in a turnover", jsonRoute((*API).acceptDowngrade)},
	{post, "/decommissions/{decommission}/{action}", operator, "act-on-decommission", "retry, resume, rerun, restart, cancel, adopt or stop a turnover", jsonRoute((*API).actOnDecommission)},
	{get, "/certificates", viewer, "list-certificates", "list clean certificates", jsonRoute((*API).listCertificates)},
	{get, "/certificates/{certificate}", viewer, "show-certificate", "show a clean certificate, with its file", jsonRoute((*API).showCertificate)},
	{post, "/nodes/{node}/attestations", operator, "attest-part", "record a person's attestation about a device that is destroyed or removed", jsonRoute((*API).attest)},
	{get, "/attestations/{attestation}", viewer, "show-attestation", "show an attestation, with its file", jsonRoute((*API).showAttestation)},
	{post, "/certificates/{certificate}/receipt", operator, "issue-receipt", "sign the tenant's receipt of a certificate", jsonRoute((*API).issueReceipt)},
	{get, "/reconciliation/status", viewer, "show-reconciliation", "show whether MAAS and the nodes agree", jsonRoute((*API).reconciliationStatus)},
	{get, "/reconciliation/drift", viewer, "list-drift", "list nodes whose state in MAAS differs", jsonRoute((*API).listDrift)},
	{post, "/reconciliation/drift/{node}/resolve", operator, "resolve-drift", "resolve a node's drift", jsonRoute((*API).resolveDrift)},
	{post, "/reconciliation/run", operator, "run-reconciliation", "reconcile a site now, or plan a reconciliation", jsonRoute((*API).runReconciliation)},
	{get, "/maas-sites/{site}/reconciliation", viewer, "show-reconcile-policy", "show a site's reconcile policy", jsonRoute((*API).showReconcilePolicy)},
	{put, "/maas-sites/{site}/reconciliation", admin, "set-reconcile-policy", "change a site's reconcile policy", jsonRoute((*API).setReconcilePolicy)},

	{get, "/nodes/{node}/agent-lifecycle", viewer, "show-agent-lifecycle", "show the desired and the reported agent of a node, and the last delivery", jsonRoute((*API).showAgent)},
	{put, "/nodes/{node}/agent-lifecycle", admin, "want-agent", "set the channel of a node's agent, and how releases are delivered", jsonRoute((*API).wantAgent)},
	{post, "/nodes/{node}/agent-lifecycle", operator, "start-agent-lifecycle", "update or repair a node's agent", jsonRoute((*API).startAgent)},
	{get, "/agent-lifecycle", viewer, "list-agent-lifecycle", "list agents with their drift from the desired state", jsonRoute((*API).listAgents)},
	{get, "/agent-lifecycle/runs", viewer, "list-agent-runs", "list runs on agents", jsonRoute((*API).listAgentRuns)},
	{get, "/agent-lifecycle/runs/{run}", viewer, "show-agent-run", "show a run on an agent, its stages and its events", jsonRoute((*API).showAgentRun)},
	{post, "/agent-lifecycle/runs/{run}/{action}", operator, "act-on-agent-run", "retry, resume, rerun, restart, cancel, adopt or stop a run on an agent", jsonRoute((*API).actOnAgentRun)},

	{get, "/rollouts", viewer, "list-rollouts", "list rollouts of agent releases", jsonRoute((*API).listRollouts)},
	{post, "/rollouts", operator, "start-rollout", "roll a release of the agent out to many nodes, wave after wave", jsonRoute((*API).startRollout)},
	{get, "/rollouts/{rollout}", viewer, "show-rollout", "show a rollout, its waves and its nodes", jsonRoute((*API).showRollout)},
	{post, "/rollouts/{rollout}/{action}", operator, "act-on-rollout", "pause, resume or abort a rollout", jsonRoute((*API).actOnRollout)},

	{get, "/agent-releases", viewer, "list-agent-releases", "list packages and signed releases of the agent", jsonRoute((*API).listReleases)},
	{put, "/agent-releases/{digest}", admin, "publish-agent-release", "publish a package of the agent", uploads(jsonRoute((*API).publishRelease))},
	{put, "/agent-releases/parts/{digest}", admin, "upload-agent-release-part", "upload the layer of a signed agent release", uploads(jsonRoute((*API).uploadPart))},
	{post, "/agent-releases", admin, "publish-signed-agent-release", "publish a signed agent release", jsonRoute((*API).publishSigned)},
	{post, "/agent-releases/{version}/revoke", admin, "revoke-agent-release", "revoke a signed agent release", jsonRoute((*API).revokeRelease)},
	{put, "/agent-releases/floor", admin, "set-agent-release-floor", "set the lowest version of the agent that nodes get", jsonRoute((*API).setReleaseFloor)},

	{get, "/registry-credentials", admin, "list-registry-credentials", "list accounts at OCI registries", jsonRoute((*API).listRegistryCredentials)},
	{put, "/registry-credentials/{registry}", admin, "set-registry-credential", "store an account at an OCI registry, after the registry accepted it", jsonRoute((*API).setRegistryCredential)},
	{drop, "/registry-credentials/{registry}", admin, "remove-registry-credential", "remove an account at an OCI registry and its secret", jsonRoute((*API).removeRegistryCredential)},

	{get, "/artifact-signers", admin, "list-artifact-signers", "list signers whose signatures of artifacts are believed", jsonRoute((*API).listArtifactSigners)},
	{put, "/artifact-signers/{name}", admin, "set-artifact-signer", "set a signer whose signatures of artifacts are believed", jsonRoute((*API).setArtifactSigner)},
	{drop, "/artifact-signers/{name}", admin, "remove-artifact-signer", "remove a signer of artifacts", jsonRoute((*API).removeArtifactSigner)},

	{get, "/source-credentials", admin, "list-source-credentials", "list accounts at sources of artifacts", jsonRoute((*API).listSourceCredentials)},
	{put, "/source-credentials/{name}", admin, "set-source-credential", "store an account at a source of artifacts", jsonRoute((*API).setSourceCredential)},
	{drop, "/source-credentials/{name}", admin, "remove-source-credential", "remove an account at a source of artifacts and its secret", jsonRoute((*API).removeSourceCredential)},

	{get, "/clusters", admin, "list-clusters", "list clusters that nodes join by operations", jsonRoute((*API).listClusters)},
	{put, "/clusters/{name}", admin, "set-cluster", "store a cluster", jsonRoute((*API).setCluster)},
	{drop, "/clusters/{name}", admin, "remove-cluster", "remove a cluster and its secrets", jsonRoute((*API).removeCluster)},

	{get, "/terminals", operator, "list-terminals", "list terminal sessions", jsonRoute((*API).listTerminals)},
	{post, "/terminals", operator, "open-terminal", "open a terminal session on a node", jsonRoute((*API).openTerminal)},
	{get, "/terminals/{terminal}", operator, "show-terminal", "show a terminal session", jsonRoute((*API).showTerminal)},
	{post, "/terminals/{terminal}/close", operator, "close-terminal", "end a terminal session", jsonRoute((*API).closeTerminal)},
	{post, "/terminals/{terminal}/tickets", operator, "issue-terminal-ticket", "get a ticket for an open terminal session", jsonRoute((*API).issueTerminalTicket)},
	{get, "/terminals/{terminal}/attach", operator, "attach-terminal", "join a terminal session, over a WebSocket", streams(webSocket, (*API).attachTerminal)},
	{get, "/recordings", operator, "list-recordings", "list recordings of terminal sessions", jsonRoute((*API).listRecordings)},
	{get, "/recordings/{recording}/cast", operator, "get-recording", "get a recording, as asciicast v2", streams(castType, (*API).getCast)},
	{get, "/recordings/{recording}/verify", operator, "verify-recording", "verify a recording against its hashes and the audit log", jsonRoute((*API).verifyRecording)},
	{get, "/terminal-policy", viewer, "show-terminal-policy", "show a site's terminal policy", jsonRoute((*API).showTerminalPolicy)},
	{put, "/terminal-policy", admin, "set-terminal-policy", "replace a site's terminal policy", jsonRoute((*API).setTerminalPolicy)},

	{get, "/clean-policy", viewer, "show-clean-policy", "show a site's clean policy", jsonRoute((*API).showPolicy)},
	{put, "/clean-policy", admin, "set-clean-policy", "replace a site's clean policy", jsonRoute((*API).setPolicy)},
}

// route is one line of the table.
type route struct {
	method, path string // see api.Path
	access       access
	id, summary  string
	register     func(*API, huma.API, huma.Operation)
}

func (a *API) add(h huma.API, r route) {
	op := huma.Operation{
		OperationID: r.id, Method: r.method, Path: api.Path(r.path),
		Summary:         r.summary,
		Description:     "Needs role " + r.access.String() + ".",
		Tags:            []string{tagOf(r.path)},
		BodyReadTimeout: -1, // bodies.InTime has set a deadline
		Middlewares:     huma.Middlewares{a.roleGuard(r.access, r.summary)},
		Errors:          errorsOfAll,
	}
	r.register(a, h, op)
}

// reply is an answer with a JSON body.
type reply[T any] struct{ Body *T }

// jsonRoute makes a route of a method with a JSON answer.
func jsonRoute[I, O any](handle func(*API, context.Context, *I) (*O, error)) func(*API, huma.API, huma.Operation) {
	return func(a *API, h huma.API, op huma.Operation) {
		huma.Register(h, op, func(ctx context.Context, in *I) (*reply[O], error) {
			out, err := callHandler(a, ctx, in, handle)
			if err != nil {
				return nil, err
			}
			if list, ok := any(out).(interface{ Tell([]api.Hold) }); ok {
				list.Tell(callerOf(ctx).frozen)
			}
			return &reply[O]{out}, nil
		})
	}
}

// streams makes a route of a method that writes its own answer with a content type.
func streams[I any](
	contentType string, handle func(*API, context.Context, *I) (*huma.StreamResponse, error),
) func(*API, huma.API, huma.Operation) {
	return func(a *API, h huma.API, op huma.Operation) {
		declareStream(&op, contentType)
		huma.Register(h, op, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
			return callHandler(a, ctx, in, handle)
		})
	}
}

// uploads makes a route of a method that reads the body itself, as a stream.
func uploads(register func(*API, huma.API, huma.Operation)) func(*API, huma.API, huma.Operation) {
	return func(a *API, h huma.API, op huma.Operation) {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{fileType: {}}}
		register(a, h, op)
	}
}

// creates makes a route answer 201.
func creates(register func(*API, huma.API, huma.Operation)) func(*API, huma.API, huma.Operation) {
	return func(a *API, h huma.API, op huma.Operation) {
		op.DefaultStatus = http.StatusCreated
		register(a, h, op)
	}
}

// callHandler calls a method and turns its error into the problem for the caller.
func callHandler[I, O any](a *API, ctx context.Context, in *I, handle func(*API, context.Context, *I) (*O, error)) (*O, error) {
	out, err := handle(a, store.WithCorrelation(ctx, callerOf(ctx).correlationID), in)
	if err != nil {
		a.auditRefused(ctx, err)
		return nil, a.toProblem(ctx, err)
	}
	return out, nil
}

// tagOf is the noun of a path.
func tagOf(path string) string {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			return path[1:i]
		}
	}
	return path[1:]
}
