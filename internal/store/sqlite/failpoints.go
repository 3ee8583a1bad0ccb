package sqlite

import "taskdaemon/internal/failpoint"

// The instants at which a crash must leave the journal whole.
var (
	fpOpenLocked      = failpoint.New("sqlite.open.after_lock")
	fpCreateRename    = failpoint.New("sqlite.file.before_rename")
	fpCreateRenamed   = failpoint.New("sqlite.file.after_rename")
	fpMigrateCommit   = failpoint.New("sqlite.migration.before_commit")
	fpMigrated        = failpoint.New("sqlite.migration.after_commit")
	fpBlobRename      = failpoint.New("sqlite.blob.before_rename")
	fpBlobRenamed     = failpoint.New("sqlite.blob.after_rename")
	fpBlobDurable     = failpoint.New("sqlite.blob.before_commit")
	fpGroupCommit     = failpoint.New("sqlite.group.before_commit")
	fpGroupCommitted  = failpoint.New("sqlite.group.after_commit")
	fpGroupPublished  = failpoint.New("sqlite.group.after_publish")
	fpTaskCreate      = failpoint.New("sqlite.task.before_create")
	fpEventsAppend    = failpoint.New("sqlite.events.before_append")
	fpEventsFold      = failpoint.New("sqlite.events.before_fold")
	fpCommandPost     = failpoint.New("sqlite.command.before_post")
	fpCommandConsume  = failpoint.New("sqlite.command.before_consume")
	fpClaimTake       = failpoint.New("sqlite.claim.before_take")
	fpClaimRenew      = failpoint.New("sqlite.claim.before_renew")
	fpClaimRelease    = failpoint.New("sqlite.claim.before_release")
	fpCursorSet       = failpoint.New("sqlite.cursor.before_set")
	fpTrimBodies      = failpoint.New("sqlite.trim.before_remove")
	fpTrimUnlink      = failpoint.New("sqlite.trim.before_unlink")
	fpCheckpoint      = failpoint.New("sqlite.wal.before_checkpoint")
	fpCheckpointed    = failpoint.New("sqlite.wal.after_checkpoint")
	fpCloseClean      = failpoint.New("sqlite.close.before_clean")
	fpCloseCheckpoint = failpoint.New("sqlite.close.before_checkpoint")
	fpCloseUnlock     = failpoint.New("sqlite.close.before_unlock")
)
