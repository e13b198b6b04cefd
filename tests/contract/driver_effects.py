"""Every option of a driver, with the test that shows its effect: as `effects.py`."""

from __future__ import annotations

from tests.contract.effects import Effects

LOCAL_OPTIONS = Effects(
    {
        "contract/api/test_odd_storages.py": {
            "test_a_local_storage_without_a_root_shows_nothing": "root_folder_path",
            "test_a_recycle_bin_is_used_also_when_the_root_came_later": "recycle_bin_path",
        },
        "contract/api/test_storage_options.py": {
            "test_a_folder_is_as_large_as_what_it_holds_where_the_storage_wants_it": "directory_size",
            "test_names_with_a_dot_are_listed_where_the_storage_wants_it_and_found_anyway": "show_hidden",
            "test_new_folders_have_the_permissions_of_the_storage": "mkdir_perm",
            "test_thumbnails_are_kept_in_the_folder_of_the_storage": "thumb_cache_folder",
        },
        "contract/api/test_thumbnails.py": {
            "test_a_picture_has_a_thumbnail_where_the_storage_makes_them": "thumbnail",
        },
        "unit/drivers/local/test_thumbnails.py": {
            "test_no_more_thumbnails_are_made_at_once_than_the_storage_says": "thumb_concurrency",
        },
    },
    not_yet={0: "video_thumb_pos"},
)

S3_OPTIONS = Effects(
    {
        "unit/drivers/s3/test_options.py": {
            "test_where_an_object_is": "root_folder_path bucket endpoint force_path_style",
            "test_who_asks": "region access_key_id secret_access_key session_token",
            "test_the_name_under_which_it_asks": "user_agent",
            "test_what_keeps_an_empty_folder": "placeholder",
        },
        "unit/drivers/s3/test_links.py": {
            "test_a_custom_host_takes_the_place_of_the_endpoint": (
                "custom_host enable_custom_host_presign remove_bucket"
            ),
            "test_links_give_the_bytes_under_their_name": "sign_url_expire add_filename_to_disposition",
        },
        "unit/drivers/s3/test_pages.py": {"test_only_the_chosen_list_call_is_used": "list_object_version"},
        "unit/drivers/s3/test_direct.py": {
            "test_clients_send_to_the_storage_where_the_option_says_so": "enable_direct_upload",
            "test_they_send_to_the_host_of_the_option": "direct_upload_host",
        },
    },
)

ALIAS_OPTIONS = Effects(
    {
        "unit/drivers/test_alias.py": {
            "test_lines_name_folders": "paths",
            "test_where_a_new_folder_goes": "write_conflict_policy",
            "test_where_an_upload_goes": "put_conflict_policy",
        },
        "unit/drivers/test_alias_options.py": {
            "test_which_file_is_read": "read_conflict_policy file_consistency_check",
            "test_the_provider_of_a_file_is_told_where_that_is_wanted": "provider_pass_through",
            "test_the_space_of_the_first_storage_is_told_where_that_is_wanted": "details_pass_through",
        },
        "contract/api/test_proxied_storages.py": {
            "test_an_alias_fetches_in_ranges_as_its_options_say": "download_concurrency download_part_size",
        },
    },
)

VIRTUAL_OPTIONS = Effects(
    {
        "unit/drivers/test_virtual.py": {
            "test_it_has_as_many_files_and_folders_of_as_many_bytes_as_it_should": (
                "num_file num_folder max_file_size min_file_size"
            ),
        },
    },
    not_yet={0: "root_folder_path"},
)

URL_TREE_OPTIONS = Effects(
    {
        "contract/attacks/test_outgoing.py": {
            "test_a_url_tree_reads_nothing_of_this_machine_unless_the_administrator_names_it": "allowed_hosts",
        },
        "unit/drivers/test_urltree.py": {
            "test_a_text_is_a_tree": "url_structure",
            "test_the_bytes_of_a_file_without_a_size_are_all_read": "head_size",
            "test_without_writable_nothing_changes": "writable",
        },
    },
)

CRYPT_OPTIONS = Effects(
    {
        "protocol/test_crypt_rclone.py": {
            "test_both_read_what_the_other_wrote": (
                "filename_encryption directory_name_encryption filename_encoding password salt"
            ),
            "test_a_changed_suffix_is_rclone_s": "encrypted_suffix",
        },
        "unit/drivers/crypt/test_driver.py": {
            "test_a_missing_folder_of_the_remote_is_made_with_the_first_file": "remote_path",
            "test_thumbnails_are_files_that_were_made_before": "thumbnail",
            "test_hidden_entries_are_listed_if_that_is_wanted": "show_hidden",
        },
    },
)
FTP_OPTIONS = Effects(
    {
        "protocol/test_ftp_troubles.py": {
            "test_what_is_wrong_is_said_at_the_start": "address username password root_folder_path",
            "test_names_are_in_the_charset_of_the_option": "encoding",
            "test_a_folder_is_entered_before_it_is_listed_when_the_option_says_so": "cwd_list",
        },
        "protocol/test_ftp_tls.py": {
            "test_a_server_that_wants_tls_says_so": "explicit_tls",
            "test_a_certificate_that_is_not_trusted_is_refused_unless_the_option_says_otherwise": (
                "tls_insecure_skip_verify"
            ),
        },
    }
)
SFTP_OPTIONS = Effects(
    {
        "protocol/test_sftp_failures.py": {"test_a_server_that_is_not_there": "address"},
        "protocol/test_sftp_files.py": {
            "test_a_link_that_leads_nowhere_is_left_out_or_named": "ignore_symlink_error",
            "test_a_root_may_begin_at_the_login_folder": "root_folder_path",
        },
        "protocol/test_sftp_sign_in.py": {
            "test_a_password_opens_the_storage_and_a_wrong_one_does_not": "username password",
            "test_a_private_key_wins_over_the_password": "private_key",
            "test_a_private_key_with_a_passphrase": "passphrase",
            "test_another_key_is_refused_until_it_is_accepted": "host_key",
        },
    },
)
SMB_OPTIONS = Effects(
    {
        "unit/drivers/smb/test_names.py": {
            "test_a_root_is_written_in_many_ways": "root_folder_path",
        },
        "protocol/test_smb_failures.py": {
            "test_what_is_wrong_is_said_at_the_start": "address username password share_name",
        },
    },
)
WEBDAV_OPTIONS = Effects(
    {
        "unit/drivers/webdav/test_options.py": {
            "test_where_the_files_are": "address root_folder_path",
            "test_who_asks": "username password",
            "test_the_sign_in_of_sharepoint_is_not_supported": "vendor",
        },
        "unit/drivers/webdav/test_server.py": {
            "test_certificates_count_unless_the_option_says_otherwise": "tls_insecure_skip_verify",
        },
    },
)


def _show_cloud(options: str, links: str = "") -> Effects:
    """The options of a service of opendal: `options` go to it as they are."""
    tests = {
        "test_the_root_is_a_folder_of_the_service": "root_folder_path",
        "test_every_option_reaches_opendal": options,
    }
    if links:
        tests["test_links_end_when_the_option_says_so"] = links
    return Effects({"unit/drivers/clouds/test_services.py": tests})


OAUTH = "refresh_token client_id client_secret access_token"
CLOUD_OPTIONS = {
    "AliyunDrive": _show_cloud(f"drive_type {OAUTH}"),
    "AzureBlob": _show_cloud("container endpoint account_name account_key sas_token"),
    "B2": _show_cloud("bucket bucket_id application_key_id application_key"),
    "COS": _show_cloud("bucket endpoint secret_id secret_key security_token", "sign_url_expire"),
    "Dropbox": _show_cloud(OAUTH),
    "GCS": _show_cloud("bucket credential token endpoint", "sign_url_expire"),
    "GoogleDrive": _show_cloud(OAUTH),
    "OBS": _show_cloud("bucket endpoint access_key_id secret_access_key", "sign_url_expire"),
    "OSS": _show_cloud(
        "bucket endpoint access_key_id access_key_secret security_token presign_endpoint", "sign_url_expire"
    ),
    "OneDrive": _show_cloud(OAUTH),
    "Seafile": _show_cloud("endpoint repo_name username password"),
    "Swift": _show_cloud("container endpoint token temp_url_key temp_url_hash_algorithm", "sign_url_expire"),
    "TOS": _show_cloud("bucket region endpoint access_key_id secret_access_key security_token", "sign_url_expire"),
    "YandexDisk": _show_cloud("access_token"),
}

DRIVER_OPTIONS = {
    "Alias": ALIAS_OPTIONS, "Crypt": CRYPT_OPTIONS, "FTP": FTP_OPTIONS, "Local": LOCAL_OPTIONS, "S3": S3_OPTIONS,
    "SFTP": SFTP_OPTIONS, "SMB": SMB_OPTIONS, "UrlTree": URL_TREE_OPTIONS, "Virtual": VIRTUAL_OPTIONS,
    "WebDav": WEBDAV_OPTIONS, **CLOUD_OPTIONS,
}  # fmt: skip
