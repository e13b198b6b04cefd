"""Everything that can be set, with the test that shows its effect; `test_effects.py` proves that nothing is missing.

`shown`: test file → test → the names whose effect it shows. `client`: the web client alone uses them. `not_yet`: they
mean nothing until a later issue, by its number; 0: no issue plans what they belong to (each says so when it is set to
switch something on), or clients only know them from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Shown = Mapping[str, Mapping[str, str]]


class Effects(NamedTuple):
    """Names are separated by spaces."""

    shown: Shown
    client: str = ""
    not_yet: Mapping[int, str] = {}


SETTINGS = Effects(
    {
        "contract/api/test_settings.py": {
            "test_the_version_names_a_release": "version",
            "test_what_browsers_and_robots_look_for_follows_the_settings": "site_title robots_txt logo favicon",
        },
        "contract/api/test_settings_save.py": {
            "test_privacy_regs_mask_messages": "privacy_regs",
            "test_a_reset_ends_the_old_permanent_token_at_once_and_leaves_sessions_alone": "token",
        },
        "contract/api/test_settings_tools.py": {
            "test_a_tool_is_offered_while_its_last_setting_up_went_well": "offline_download_ready",
        },
        "unit/configuration/test_settings.py": {
            "test_what_is_not_there_cannot_be_switched_on": (
                "webauthn_login_enabled share_preview share_archive_preview sso_login_enabled sso_auto_register "
                "sso_compatibility_mode ldap_login_enabled s3_access_key_id s3_secret_access_key s3_buckets "
                "ftp_public_host ftp_pasv_port_map ftp_mandatory_tls ftp_implicit_tls ftp_tls_private_key_path "
                "ftp_tls_public_cert_path transmission_seedtime transmission_uri"
            ),
        },
        "contract/api/test_conformance.py": {
            "test_how_full_a_storage_is_is_told_where_the_settings_want_it": (
                "hide_storage_details hide_storage_details_in_manage_page"
            ),
        },
        "contract/api/test_storage_options.py": {
            "test_each_list_of_extensions_gives_its_type": "video_types audio_types text_types image_types",
            "test_parameters_that_are_to_be_ignored_are_not_handed_on": "ignore_direct_link_params",
        },
        "contract/api/test_downloads.py": {
            "test_text_and_what_the_storage_wants_pass_through": "proxy_types",
            "test_parameters_are_handed_on_when_the_setting_says_so": "forward_direct_link_params",
        },
        "contract/api/test_proxied_storages.py": {
            "test_headers_of_the_client_reach_the_server_unless_they_are_to_be_ignored": "proxy_ignore_headers",
            "test_a_name_with_a_slash_is_shown_as_the_mapping_says": "filename_char_mapping",
        },
        "contract/api/test_signatures.py": {
            "test_links_expire_when_the_setting_says_so": "link_expiration",
            "test_without_sign_all_links_are_open": "sign_all",
        },
        "contract/api/test_multipart.py": {
            "test_the_settings_switch_it_off_and_bound_its_chunks": "multipart_enabled multipart_chunk_size",
        },
        "contract/api/test_uploads.py": {
            "test_system_files_are_ignored_when_the_setting_says_so": "ignore_system_files",
        },
        "contract/api/test_archives.py": {
            "test_names_are_read_in_the_encoding_of_the_setting": "non_efs_zip_encoding",
            "test_the_settings_bound_what_an_archive_may_hold": (
                "archive_max_members archive_max_size archive_max_ratio"
            ),
        },
        "contract/api/test_task_workers.py": {
            "test_no_transfer_of_a_kind_begins_while_its_setting_is_0": (
                "upload_task_threads_num copy_task_threads_num move_task_threads_num"
            ),
            "test_no_other_work_of_a_kind_begins_while_its_setting_is_0": (
                "offline_download_task_threads_num offline_download_transfer_task_threads_num "
                "decompress_download_task_threads_num decompress_upload_task_threads_num"
            ),
        },
        "contract/api/test_speed_limits.py": {
            "test_what_is_downloaded_is_as_fast_as_all_downloads_together_may_be": "max_client_download_speed",
            "test_an_upload_is_limited": "max_client_upload_speed",
            "test_a_task_that_copies_is_limited_on_both_sides": "max_server_download_speed max_server_upload_speed",
        },
        "unit/tasks/test_moves.py": {
            "test_moves_are_durable_always_and_copies_as_the_setting_says": "durability",
        },
        "unit/tasks/test_verification.py": {
            (
                "test_the_target_is_not_read_when_the_storage_proves_it_or_the_setting_is_off_or_nothing_is_removed"
            ): "verify_moves",
        },
        "unit/tasks/test_small_files.py": {
            "test_as_many_files_are_under_way_at_once_as_the_setting_says": "small_file_threads_num",
        },
        "unit/tasks/test_sweep.py": {
            "test_tasks_that_are_done_go_after_as_many_days_as_the_setting_says": "task_retention_days",
        },
        "contract/api/test_offline_download_work.py": {
            "test_more_than_the_setting_allows_is_not_stored": "offline_download_max_size",
            "test_without_leave_nothing_on_this_machine_is_reached": "offline_download_allowed_hosts",
        },
        "contract/attacks/test_links.py": {
            "test_a_new_token_ends_the_links_of_the_old_one": "link_salt",
            "test_a_link_ends_when_its_user_is_disabled_or_may_no_longer_read": "link_follows_user",
        },
        "unit/tree/test_journal.py": {
            "test_nothing_is_logged_without_an_index": (
                "search_index auto_update_index handle_hook_after_writing ignore_paths"
            ),
        },
        "unit/tasks/test_index.py": {"test_what_the_settings_leave_out_is_left_out": "max_index_depth"},
        "contract/api/test_index.py": {
            "test_who_never_asked_has_an_index_from_the_first_start_on": "index_progress",
        },
        "unit/identity/test_accounts.py": {
            "test_a_password_that_is_set_has_the_length_that_the_settings_want": "min_password_length",
        },
        "unit/tools/test_registry.py": {
            "test_web_addresses_go_to_our_own_fetcher_unless_the_setting_gives_them_to_aria2": "aria2_http",
            "test_the_settings_make_the_tool": "aria2_uri aria2_secret qbittorrent_url qbittorrent_seedtime",
        },
        "contract/api/dav/test_dav_sign_in.py": {
            "test_nobody_finds_a_door_that_is_closed": "webdav_enabled",
            "test_plain_http_from_elsewhere_is_refused_before_a_password_is_asked_for": "webdav_allow_http",
        },
        "contract/api/dav/test_dav_propfind.py": {
            "test_all_that_is_below_is_listed_where_the_setting_says_so": "webdav_infinite_depth",
        },
        "unit/protocols/test_sftp_bounds.py": {
            "test_temporary_files_are_bounded_by_the_settings": "sftp_max_temporary_mb_per_user sftp_max_temporary_mb",
            "test_gaps_are_bounded_by_the_setting": "sftp_max_gap_mb",
        },
        "protocol/protocols/test_sftp_sign_in.py": {
            "test_keys_alone_let_in_where_the_setting_says_so": "sftp_disable_password_login",
            "test_what_is_said_in_public_and_what_is_no_address": "sftp_listen",
        },
    },
    client=(
        "announcement pagination_type default_page_size allow_indexed allow_mounted main_color home_icon share_icon "
        "home_container settings_layout show_disk_usage_in_plain_text external_previews iframe_previews audio_cover "
        "audio_autoplay video_autoplay preview_download_by_default preview_archives_by_default "
        "share_preview_download_by_default share_preview_archives_by_default readme_autorender filter_readme_scripts "
        "hide_files package_download ocr_api"
    ),
    not_yet={
        0: (
            "handle_hook_rate_limit share_force_proxy share_summary_content sso_login_platform sso_client_id "
            "sso_client_secret sso_oidc_username_key sso_organization_name sso_application_name sso_endpoint_name "
            "sso_jwt_public_key sso_extra_scopes sso_default_dir sso_default_permission ldap_server "
            "ldap_skip_tls_verify ldap_manager_dn ldap_manager_password ldap_user_search_base "
            "ldap_user_search_filter ldap_default_dir ldap_default_permission ldap_login_tips"
        ),
        17: "customize_head customize_body",
    },
)

STORAGE_FIELDS = Effects(
    {
        "unit/tree/test_administration.py": {
            "test_a_new_storage_is_mounted_with_all_options_of_its_driver": "mount_path driver addition",
            "test_a_storage_that_does_not_start_keeps_its_record": "status",
            "test_a_storage_is_disabled_enabled_and_deleted": "id disabled",
        },
        "unit/tree/test_journal.py": {"test_nothing_is_logged_without_an_index": "disable_index"},
        "unit/tree/test_mounts.py": {"test_virtual_folders_come_in_the_order_of_the_storages": "order"},
        "unit/tree/test_listing.py": {
            "test_how_long_a_folder_is_kept_is_the_storages_word": "cache_expiration custom_cache_policies",
        },
        "unit/drivers/s3/test_pages.py": {"test_a_folder_is_as_old_as_its_storage": "modified"},
        "contract/api/test_signatures.py": {
            "test_a_storage_or_a_password_may_want_signatures_on_their_own": "enable_sign",
        },
        "unit/tree/test_folder.py": {
            "test_a_listing_is_sorted_as_its_storage_wants": "order_by order_direction extract_folder",
        },
        "unit/tree/test_downloads.py": {"test_bytes_pass_through_us_where_they_must_or_may": "web_proxy webdav_policy"},
        "contract/api/test_proxied_storages.py": {
            "test_an_alias_fetches_in_ranges_as_its_options_say": "proxy_range",
        },
        "contract/api/test_downloads.py": {
            "test_a_storage_with_a_download_proxy_sends_browsers_there": "down_proxy_url disable_proxy_sign",
        },
    },
    client="remark",
)

USER_FIELDS = Effects(
    {
        "contract/api/test_users.py": {
            "test_the_list_is_ordered_by_id_and_cut_into_pages": "id",
            "test_a_user_name_is_required_and_unique": "username",
            "test_a_role_that_does_not_exist_is_no_administrator": "role",
        },
        "contract/api/test_login.py": {"test_login_with_the_hash_opens_the_same_account": "password_hash"},
        "contract/api/test_file_rights.py": {
            "test_a_user_sees_and_changes_only_what_is_below_his_base_path": "base_path",
            "test_each_change_needs_its_own_right_and_no_other": "permission",
        },
        "contract/api/test_sessions.py": {
            "test_disabling_a_user_ends_his_access_at_once_and_enabling_gives_it_back": "disabled",
            "test_a_password_change_ends_the_tokens_of_the_very_same_second": "pwd_ts",
        },
        "unit/identity/test_accounts.py": {
            "test_a_second_factor_is_asked_for_and_its_code_is_good_once": "otp_secret",
            "test_only_of_an_administrator_it_is_noted_that_the_password_is_short": "has_short_password",
        },
    },
    not_yet={0: "sso_id allow_ldap"},
)

PERMISSION_BITS = Effects(
    {
        "contract/api/test_meta_hiding.py": {"test_the_bit_that_sees_hidden_names_sees_them": "SEE_HIDDEN"},
        "contract/api/test_meta_passwords.py": {"test_the_bit_that_skips_passwords_skips_them": "SKIP_PASSWORD"},
        "contract/api/test_file_rights.py": {
            "test_each_change_needs_its_own_right_and_no_other": "WRITE RENAME MOVE COPY DELETE",
        },
        "unit/tasks/test_submit.py": {
            "test_a_download_without_the_right_is_refused": "OFFLINE_DOWNLOAD",
        },
        "contract/api/dav/test_dav_sign_in.py": {
            "test_the_doors_own_rights_are_needed_beside_the_others": "WEBDAV_READ WEBDAV_MANAGE",
        },
        "contract/api/test_archive_rights.py": {"test_the_right_to_look_into_archives_is_needed": "READ_ARCHIVES"},
        "contract/api/test_decompress_refusals.py": {
            "test_the_right_to_decompress_and_the_rules_of_both_folders_decide": "DECOMPRESS",
        },
    },
    not_yet={0: "SHARE CUSTOM_SHARE_ID", 14: "FTP_READ FTP_MANAGE"},
)

RULE_FIELDS = Effects(
    {
        "contract/api/test_metas.py": {
            "test_the_list_is_ordered_by_id_and_cut_into_pages": "id",
            "test_a_path_has_one_rule": "path",
        },
        "contract/api/test_meta_users.py": {
            "test_read_users_admits_those_it_names_and_not_even_the_administrator_else": "read_users",
            "test_read_users_without_its_sub_flag_guards_the_folder_itself_only": "read_users_sub",
            "test_write_users_refuses_every_change_by_those_it_does_not_name": "write_users",
            "test_write_users_without_its_sub_flag_guards_the_folder_itself_only": "write_users_sub",
            "test_write_opens_a_folder_for_new_things_without_the_right": "write",
            "test_w_sub_opens_every_folder_below": "w_sub",
        },
        "contract/api/test_meta_passwords.py": {
            "test_a_password_with_p_sub_shuts_the_folder_and_everything_below": "password",
            "test_a_password_without_p_sub_guards_the_folder_itself_only": "p_sub",
            "test_readme_and_header_are_shown_at_the_folder_and_below_by_their_flags": "readme r_sub header header_sub",
        },
        "contract/api/test_meta_hiding.py": {
            "test_a_hide_line_takes_matching_names_out_of_the_folder": "hide",
            "test_h_sub_hides_names_in_every_folder_below": "h_sub",
        },
    },
)
