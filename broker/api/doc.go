// Package api holds the types of the operator API on the wire: the requests and answers of the
// broker's routes, and the output of the command line with -o json. Of the broker the package imports
// the domain's words only, so that a client pulls in no server.
//
// All paths are below Prefix, and those of organisations, projects and members below TenantPrefix. What
// a tenant sees of an allocation is below its project; /allocations is the platform's.
// {node} takes a NODE reference (an id, a unique id prefix, a hostname, or site/hostname with the
// slash escaped as %2F); {task} takes a task id.
//
//	GET    /status                              Status            ?site=
//	GET    /events                              text/event-stream, one Event each   ?after= &type= &subject= &follow=
//	GET    /freeze                              FreezeStatus      ?site=
//	POST   /freeze                              FreezePut → FreezeResult
//	POST   /unfreeze                            UnfreezePut → FreezeResult
//	GET    /whoami                              Token
//	GET    /roots                               RootList
//	GET    /find                                FoundList         ?q= &cursor= &limit=
//	GET    /nodes                               NodeList          ?site= &status= &label=k=v &hostname= &sku= &serial=
//	                                                              &tenant= &updated_since= &cursor= &limit=
//	POST   /nodes                               NodeCreate → NodeBootstrap
//	GET    /nodes/{node}                        Node              {node} is any word that GET /find takes
//	PUT    /nodes/{node}/labels                 Labels → Node (an empty value removes the label)
//	POST   /nodes/{node}/actions/{action}       NodeAction → NodeActionResult; action: drain, resume,
//	                                            quarantine, activate, retire, remove
//	GET    /nodes/{node}/timeline               Timeline          ?since= &cursor= &limit=
//	POST   /nodes/{node}/token                  TokenRequest → NodeBootstrap (a new enrolment token)
//	POST   /nodes/{node}/token/extend           TokenRequest → EnrollToken
//	GET    /nodes/{node}/baseline               Baseline
//	GET    /nodes/{node}/baseline/diff          BaselineDiff      (against the last one taken)
//	POST   /nodes/{node}/baseline/retake        ReasonBody → Task
//	POST   /nodes/{node}/baseline/accept        BaselineAccept → Baseline
//	POST   /nodes/{node}/tasks                  TaskCreate → Task
//	GET    /tasks                               TaskList          ?node= &status= &type= &cursor= &limit=
//	GET    /tasks/{task}                        Task              ?wait=SECONDS (at most 50) until it has ended;
//	                                            &progress=AT also until progress.at is not AT ("none" before the first)
//	POST   /tasks/{task}/cancel                 ReasonBody → Task
//	GET    /tasks/{task}/evidence               Evidence
//	GET    /task-types                          TaskTypeList
//	GET    /task-types/{type}                   TaskType
//	GET    /tokens                              TokenList
//	POST   /tokens                              TokenCreate → TokenCreated
//	POST   /tokens/{name}/revoke                ReasonBody → Token
//	GET    /audit                               AuditList         ?node= &actor= &action= &from= &to= &cursor= &limit=
//	GET    /audit/verify                        AuditVerification
//	GET    /audit/export                        application/x-ndjson, one AuditEntry a line   ?from= &to= &node=
//	GET    /trust                               Trust
//	POST   /trust/rotate                        TrustRotate → Trust
//	POST   /trust/finish                        TrustFinish → Trust
//	POST   /trust/release-keys                  ReleaseKeyPut → Trust
//	POST   /trust/release-keys/{key}/retire     ReasonBody → Trust; {key} is a key's id
//	GET    /operation-definitions               OperationDefinitionList  ?operation= &status= &cursor= &limit=
//	POST   /operation-definitions               OperationDefinitionPush → OperationDefinition (a draft)
//	GET    /operation-definitions/{definition}  OperationDefinition  {definition} is OPERATION@VERSION
//	PATCH  /operation-definitions/{definition}  OperationDefinitionActivate → OperationDefinition
//	POST   /operation-definitions/{definition}/deprecate  ReasonBody → OperationDefinition
//	POST   /operation-definitions/{definition}/retire  ReasonBody → OperationDefinition
//	GET    /maas-sites                          SiteList
//	POST   /maas-sites                          SiteConfig → Site (with a default profile)
//	GET    /maas-sites/{site}                   Site              {site} is an id or a name
//	PATCH  /maas-sites/{site}                   SiteConfig → Site
//	DELETE /maas-sites/{site}                   Site (disabled; the record stays)  ?reason=
//	GET    /maas-sites/{site}/profiles          SiteProfileList
//	POST   /maas-sites/{site}/profiles          SiteProfileConfig → SiteProfile
//	GET    /maas-sites/{site}/profiles/{profile}  SiteProfile     {profile} is an id or a name
//	PATCH  /maas-sites/{site}/profiles/{profile}  SiteProfileConfig → SiteProfile
//	POST   /maas-sites/{site}/credentials       SiteCredentials → SiteCredentialsSet
//	POST   /maas-sites/{site}/probe             SiteProbe         ?profile=
//	GET    /maas-sites/{site}/power-overrides   PowerOverrideList
//	POST   /maas-sites/{site}/power-overrides   PowerOverridePut → PowerOverride
//	PATCH  /maas-sites/{site}/power-overrides/{override}  PowerOverrideChange → PowerOverride
//	DELETE /maas-sites/{site}/power-overrides/{override}  PowerOverride  ?reason=
//	GET    /maas-sites/{site}/roce-assignments  RoCEList          ?hostname=
//	POST   /maas-sites/{site}/roce-assignments  RoCEPut → RoCEResult
//	DELETE /maas-sites/{site}/roce-assignments/{assignment}  RoCEAssignment  ?reason=
//	GET    /skus                                SKUList
//	POST   /skus                                SKUConfig → SKU
//	GET    /skus/{sku}                          SKU
//	PATCH  /skus/{sku}                          SKUConfig → SKU
//	GET    /projects/{project}/allocations      AllocationList    ?status= &sku= &site= &label=k=v &cursor= &limit=
//	POST   /projects/{project}/allocations      AllocationCreate → Allocation (201)
//	GET    /projects/{project}/allocations/{allocation}  Allocation
//	GET    /projects/{project}/allocations/{allocation}/timeline  AllocationTimeline
//	GET    /projects/{project}/allocations/{allocation}/certificates  AllocationCertificateList
//	GET    /projects/{project}/allocations/{allocation}/certificates/{certificate}  AllocationReceipt
//	POST   /projects/{project}/allocations/{allocation}/release  ReasonBody → Allocation
//	POST   /projects/{project}/allocations/{allocation}/terminals  ProjectTerminalStart → ProjectTerminalTicket (201)
//	GET    /projects/{project}/terminals        ProjectTerminalList  ?allocation= &status= &cursor= &limit=
//	GET    /projects/{project}/terminals/{terminal}  ProjectTerminal
//	POST   /projects/{project}/terminals/{terminal}/close  ReasonBody → ProjectTerminal
//	POST   /projects/{project}/terminals/{terminal}/tickets  TerminalTicketRequest → ProjectTerminalTicket
//	GET    /projects/{project}/terminals/{terminal}/attach  a WebSocket, like that of /terminals/{terminal}/attach
//	GET    /allocations                         PlatformAllocationList  ?project= and those of a project's list
//	GET    /allocations/explain                 AllocationExplanation  ?sku= &nodes= &site= &project=
//	GET    /allocations/{allocation}            PlatformAllocation
//	POST   /allocations/{allocation}/force-release  ReasonBody → PlatformAllocation
//	GET    /organisations                       OrganisationList  ?ended= &cursor= &limit=
//	POST   /organisations                       OrganisationCreate → Organisation
//	GET    /organisations/{organisation}        Organisation      {organisation} is an id or a name
//	POST   /organisations/{organisation}/end    ReasonBody → Organisation (the record stays)
//	GET    /organisations/{organisation}/members  MemberList      ?ended= &cursor= &limit=
//	POST   /organisations/{organisation}/members  MemberAdd → Member
//	POST   /organisations/{organisation}/projects  ProjectCreate → Project
//	GET    /projects                            ProjectList       ?organisation= &ended= &cursor= &limit=
//	GET    /projects/{project}                  Project           {project} is an id, a name, or ORGANISATION%2FNAME
//	POST   /projects/{project}/end              ReasonBody → Project (the record stays)
//	GET    /projects/{project}/members          MemberList        ?ended= &cursor= &limit=
//	POST   /projects/{project}/members          MemberAdd → Member
//	PATCH  /projects/{project}/operation-bindings  ProjectBindings → Project
//	GET    /projects/{project}/quotas           QuotaList         ?cursor= &limit=
//	PUT    /projects/{project}/quotas/{sku}     QuotaPut → Quota
//	GET    /operation-policies                  PlatformOperationPolicyList  ?cursor= &limit=; of the global level
//	GET    /operation-policies/{operation_type}      OperationPolicy      {operation_type} has no version, or is * for all
//	PUT    /operation-policies/{operation_type}      OperationPolicyPut → OperationPolicy
//	DELETE /operation-policies/{operation_type}      OperationRule        ?reason=
//	…      /organisations/{organisation}/operation-policies…  the same four, of an organisation
//	…      /projects/{project}/operation-policies…            the same four, of a project
//	GET    /projects/{project}/operation-policies/{operation_type}/effective  EffectiveOperationPolicy
//	GET    /projects/{project}/reservations     ReservationList   ?sku= &ended= &cursor= &limit=
//	GET    /projects/{project}/reservations/{reservation}  Reservation
//	GET    /reservations                        PlatformReservationList  ?project= and those of a project's list
//	POST   /reservations                        ReservationCreate → PlatformReservation (201)
//	GET    /reservations/{reservation}          PlatformReservation
//	POST   /reservations/{reservation}/end      ReasonBody → PlatformReservation
//	GET    /projects/{project}/operations       OperationList     ?status= &operation= &allocation= &from= &to= &cursor= &limit=
//	POST   /projects/{project}/operations       OperationCreate → Operation (201)
//	POST   /projects/{project}/operations/plan  OperationCreate → OperationPlan (nothing begins)
//	GET    /projects/{project}/operations/{operation}       Operation
//	GET    /projects/{project}/operations/{operation}/logs  OperationLog   ?step_id= &cursor= &limit= &follow=
//	GET    /projects/{project}/operations/{operation}/statement  OperationStatement   ?attempt=
//	POST   /projects/{project}/operations/{operation}/cancel, …/retry     ReasonBody → Operation
//	GET    /operations                          PlatformOperationList   ?project= and those of a project's list
//	POST   /operations                          PlatformOperationCreate → PlatformOperation (201)
//	POST   /operations/plan                     PlatformOperationCreate → OperationPlan
//	GET    /operations/{operation}              PlatformOperation
//	GET    /operations/{operation}/logs         PlatformOperationLog   ?step_id= &cursor= &limit= &follow= &follow=
//	GET    /operations/{operation}/statement    OperationStatement   ?attempt=
//	POST   /operations/{operation}/cancel, …/retry          ReasonBody → PlatformOperation
//	GET    /members/{member}                    Member
//	POST   /members/{member}/end                ReasonBody → Member (the record stays)
//	GET    /members/{member}/keys               SSHKeyList        ?ended= &cursor= &limit=
//	POST   /members/{member}/keys               SSHKeyAdd → SSHKey
//	DELETE /members/{member}/keys/{key}         SSHKey (the record stays)  ?reason=
//	GET    /runs                                RunList           ?kind= &node_id= &site= &status= &stage= &class=
//	                                                              &batch_id= &cursor= &limit=
//	GET    /runs/{run}                          RunDetail; of any kind
//	POST   /runs/{run}/{action}                 RunOrder → Run; action: retry, resume, rerun,
//	                                            restart-clean, cancel, adopt, mark-manual-intervention
//	GET    /onboardings                         OnboardingList    ?site= &status= &stage= &class=
//	                                                              &batch_id= &hostname= &cursor= &limit=
//	POST   /onboardings                         OnboardingStart → Onboarding
//	POST   /onboardings/batch                   OnboardingBatch → OnboardingBatchStarted
//	POST   /onboardings/batch/{batch}/retry     ReasonBody → OnboardingBatchRetried
//	POST   /onboardings/plan                    OnboardingBatch → OnboardingPlan
//	GET    /onboardings/{onboarding}            OnboardingDetail
//	POST   /onboardings/{onboarding}/{action}   RunOrder → Onboarding; actions as of runs
//	POST   /nodes/{node}/decommission           DecommissionStart → Decommission
//	POST   /nodes/{node}/decommission/plan      DecommissionStart → DecommissionPlan
//	POST   /nodes/{node}/storage-cleanup        StorageCleanupStart → Decommission
//	POST   /nodes/{node}/storage-cleanup/plan   StorageCleanupStart → DecommissionPlan
//	GET    /decommissions                       DecommissionList  ?node_id= &site= &mode= &status= &stage= &class=
//	                                                              &batch_id= &cursor= &limit=
//	GET    /decommissions/figures               TurnoverFigures   ?site= &since=
//	POST   /decommissions/batch                 DecommissionBatch → DecommissionBatchStarted
//	POST   /decommissions/batch/{batch}/retry   ReasonBody → DecommissionBatchRetried
//	POST   /decommissions/plan                  DecommissionBatch → DecommissionBatchPlan
//	GET    /decommissions/{decommission}        DecommissionDetail
//	POST   /decommissions/{decommission}/accept-downgrade  DowngradeAccept → DowngradeAccepted
//	POST   /decommissions/{decommission}/{action}  RunOrder → Decommission; actions as of runs
//	GET    /certificates                        CleanCertificateList  ?node_id= &cursor= &limit=
//	GET    /certificates/{certificate}          CleanCertificate
//	POST   /certificates/{certificate}/receipt  CleanCertificate (the tenant's version)
//	POST   /nodes/{node}/attestations           AttestationPut → Attestation
//	GET    /attestations/{attestation}          Attestation
//	GET    /reconciliation/status               ReconciliationStatus   ?site=
//	GET    /reconciliation/drift                DriftList         ?site= &rule= &severity= &resolved= &cursor= &limit=
//	POST   /reconciliation/drift/{node}/resolve ReasonBody → Drift
//	POST   /reconciliation/run                  ReconciliationRun ?site= &plan=
//	GET    /maas-sites/{site}/reconciliation    SiteReconcilePolicy
//	PUT    /maas-sites/{site}/reconciliation    SiteReconcilePolicyPut → SiteReconcilePolicy (what it leaves out stays)
//	GET    /agent-releases                      AgentReleaseList
//	PUT    /agent-releases/{digest}             the package's bytes → AgentRelease
//	                                            ?version= &arch= &filename=; {digest} is the hex SHA-256
//	GET    /nodes/{node}/agent-lifecycle        AgentLifecycle
//	PUT    /nodes/{node}/agent-lifecycle        AgentWant → AgentLifecycle
//	POST   /nodes/{node}/agent-lifecycle        AgentLifecycleStart → AgentLifecycleRun
//	GET    /agent-lifecycle                     AgentLifecycleList    ?site= &drift= &cursor= &limit=
//	GET    /agent-lifecycle/runs                AgentLifecycleRuns    ?node_id= &site= &status= &stage= &class= &cursor= &limit=
//	GET    /agent-lifecycle/runs/{run}          AgentLifecycleDetail
//	POST   /agent-lifecycle/runs/{run}/{action} RunOrder → AgentLifecycleRun; actions as of runs
//	GET    /rollouts                            RolloutList       ?site= &status= &cursor= &limit=
//	POST   /rollouts                            RolloutStart → Rollout
//	GET    /rollouts/{rollout}                  RolloutDetail     ?brief=
//	POST   /rollouts/{rollout}/{action}         RolloutOrder → Rollout; action: pause, resume, abort
//	PUT    /agent-releases/parts/{digest}       the layer's bytes → ReleasePart
//	POST   /agent-releases                      AgentReleasePublish → AgentRelease (a signed one)
//	POST   /agent-releases/{version}/revoke     ReasonBody → AgentRelease
//	PUT    /agent-releases/floor                AgentReleaseFloorPut → AgentReleaseFloor
//	GET    /registry-credentials                RegistryCredentialList
//	PUT    /registry-credentials/{registry}     RegistryCredentialPut → RegistryCredential; {registry} is HOST[:PORT]
//	DELETE /registry-credentials/{registry}     RegistryCredential  ?reason=
//	GET    /artifact-signers                    ArtifactSignerList
//	PUT    /artifact-signers/{name}             ArtifactSignerPut → ArtifactSigner
//	DELETE /artifact-signers/{name}             ArtifactSigner  ?reason=
//	GET    /source-credentials                  SourceCredentialList
//	PUT    /source-credentials/{name}           SourceCredentialPut → SourceCredential
//	DELETE /source-credentials/{name}           SourceCredential  ?reason=
//	GET    /clusters                            ClusterList
//	PUT    /clusters/{name}                     ClusterPut → Cluster
//	DELETE /clusters/{name}                     Cluster  ?reason=
//	GET    /terminals                           TerminalList      ?node= &status= &opened_by= &cursor= &limit=
//	POST   /terminals                           TerminalStart → TerminalTicket
//	GET    /terminals/{terminal}                Terminal
//	POST   /terminals/{terminal}/close          ReasonBody → Terminal
//	POST   /terminals/{terminal}/tickets        TerminalTicketRequest → TerminalTicket
//	GET    /terminals/{terminal}/attach         a WebSocket: each binary message one frame of
//	                                            taskcatalog/wire/frame; it offers the protocols TerminalProtocol
//	                                            and TerminalTicketPrefix with a ticket
//	GET    /recordings                          RecordingList     ?node= &opened_by= &from= &to= &cursor= &limit=
//	GET    /recordings/{recording}/cast         application/x-asciicast; {recording} is the session's id
//	GET    /recordings/{recording}/verify       RecordingReport
//	GET    /terminal-policy                     TerminalPolicy    ?site=
//	PUT    /terminal-policy                     TerminalPolicyPut → TerminalPolicy (what its policy leaves out is the default)
//	GET    /clean-policy                        CleanPolicy       ?site=
//	PUT    /clean-policy                        CleanPolicyPut → CleanPolicy
//
// The routes that begin runs (POST /onboardings, /adoptions, their /batch, /decommissions/batch,
// /rollouts, and a node's decommission, storage-cleanup and agent-lifecycle) and the requests for an
// allocation or a reservation take an Idempotency-Key: a repeated request with the same key and body is
// answered with the run, allocation or reservation that the first request began.
//
// Every unsuccessful answer is a Problem. Every list is {items, next}: next is the
// cursor of the next page, and empty on the last one. A list that is bounded by nature, such as
// SKUs, comes whole unless limit is given; all lists take limit and cursor.
package api
